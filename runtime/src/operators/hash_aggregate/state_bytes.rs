//! The state of a hash aggregate as bytes, whichever way it keeps its groups.

use super::HashAggregate;
use crate::error::{Error, Result};
use crate::rows::take_array;

impl HashAggregate {
    /// Everything that is kept; nothing is on its way out.
    pub(super) fn state_bytes(&mut self) -> Result<Vec<u8>> {
        let mut bytes = vec![u8::from(self.dirty)];
        if let Some(partial) = &mut self.partial {
            partial.write_to(&mut bytes)?;
        }
        if let Some(changes) = &mut self.changes {
            changes.write_to(&mut bytes)?;
            return Ok(bytes);
        }
        if let Some(firing) = &mut self.firing {
            firing.write_to(&mut bytes)?;
            return Ok(bytes);
        }
        if let Some(partial) = &mut self.partial_panes {
            partial.write_to(&mut bytes)?;
            return Ok(bytes);
        }
        if let Some(slices) = &mut self.slices {
            slices.write_to(&mut bytes)?;
            return Ok(bytes);
        }
        if let Some(panes) = &mut self.panes {
            panes.write_to(&mut bytes)?;
            return Ok(bytes);
        }
        for (partition, table) in self.tables.iter_mut().enumerate() {
            if let Some(table) = table {
                bytes.extend_from_slice(&(partition as u32).to_le_bytes());
                table.write_to(&mut bytes)?;
            }
        }
        Ok(bytes)
    }

    /// Takes over what [`Self::state_bytes`] gave.
    pub(super) fn take_state(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.dirty = take_array::<1>(&mut bytes)?[0] != 0;
        if let Some(partial) = &mut self.partial {
            partial.read_from(&mut bytes)?;
        }
        if let Some(changes) = &mut self.changes {
            return changes.read_from(&mut bytes);
        }
        if let (Some(firing), Some(reservation)) = (&mut self.firing, &self.reservation) {
            return firing.read_from(reservation, &mut bytes);
        }
        if let Some(partial) = &mut self.partial_panes {
            return partial.read_from(&mut bytes);
        }
        if let Some(slices) = &mut self.slices {
            let reservation = self.reservation.as_ref().expect("open makes it before a restore");
            return slices.read_from(&self.shape, reservation, &mut bytes);
        }
        if let Some(panes) = &mut self.panes {
            let reservation = self.reservation.as_ref().expect("open makes it before a restore");
            return panes.read_from(&self.shape, reservation, &mut bytes);
        }
        while !bytes.is_empty() {
            let partition = u32::from_le_bytes(take_array(&mut bytes)?) as usize;
            if partition >= self.tables.len() {
                return Err(Error::Internal("a snapshot of another aggregate".into()));
            }
            self.table(partition)?.read_from(&mut bytes)?;
        }
        Ok(())
    }
}
