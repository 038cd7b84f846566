//! The fields of persons, auctions and bids, a column at a time.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, TimestampMicrosecondArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, TimeUnit};
use serde::{Deserialize, Serialize};
use thalweg_runtime::Result;

use super::events::{Draw, Event, Events, Kind};
use super::texts::{CHANNELS, Cut, HOT, TEXTS, TextColumn};

const FIRST_NAMES: [&str; 11] = [
    "Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter",
];
const LAST_NAMES: [&str; 9] =
    ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"];
const CITIES: [&str; 10] = [
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
];
const STATES: [&str; 6] = ["AZ", "CA", "ID", "OR", "WA", "WY"];
/// The first category, and how many there are.
const FIRST_CATEGORY: i64 = 10;
const CATEGORIES: i64 = 5;
/// The shortest text of words.
const WORDS_LENGTH_MIN: usize = 3;
/// Length of the longest name of a thing, and of the longest description; they stay below.
const NAME_LENGTH: usize = 20;
const DESCRIPTION_LENGTH: usize = 100;
const MAILBOX_LENGTH: usize = 7;
const DOMAIN_LENGTH: usize = 5;
/// Bytes of numbers and times.
const NUMBER_BYTES: u64 = 8;

/// The fields that events have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Item {
    /// `id` of a person or an auction.
    Id,
    /// `dateTime`.
    Time,
    /// `extra`.
    Extra,
    /// `name` of a person.
    Name,
    /// `emailAddress` of a person.
    EmailAddress,
    /// `creditCard` of a person.
    CreditCard,
    /// `city` of a person.
    City,
    /// `state` of a person.
    State,
    /// `itemName` of an auction.
    Thing,
    /// `description` of an auction.
    Description,
    /// `initialBid` of an auction, in cents.
    InitialBid,
    /// `reserve` of an auction, in cents.
    Reserve,
    /// `expires` of an auction.
    Expires,
    /// `seller` of an auction.
    Seller,
    /// `category` of an auction.
    Category,
    /// `auction` of a bid.
    Auction,
    /// `bidder` of a bid.
    Bidder,
    /// `price` of a bid, in cents.
    Price,
    /// `channel` of a bid.
    Channel,
    /// `url` of a bid.
    Url,
}

impl Kind {
    /// The fields of such events with their names, in their order.
    pub fn items(self) -> &'static [(&'static str, Item)] {
        match self {
            Kind::Person => &[
                ("id", Item::Id),
                ("name", Item::Name),
                ("emailAddress", Item::EmailAddress),
                ("creditCard", Item::CreditCard),
                ("city", Item::City),
                ("state", Item::State),
                ("dateTime", Item::Time),
                ("extra", Item::Extra),
            ],
            Kind::Auction => &[
                ("id", Item::Id),
                ("itemName", Item::Thing),
                ("description", Item::Description),
                ("initialBid", Item::InitialBid),
                ("reserve", Item::Reserve),
                ("dateTime", Item::Time),
                ("expires", Item::Expires),
                ("seller", Item::Seller),
                ("category", Item::Category),
                ("extra", Item::Extra),
            ],
            Kind::Bid => &[
                ("auction", Item::Auction),
                ("bidder", Item::Bidder),
                ("price", Item::Price),
                ("channel", Item::Channel),
                ("url", Item::Url),
                ("dateTime", Item::Time),
                ("extra", Item::Extra),
            ],
        }
    }
}

impl Item {
    /// The type in which the values are made.
    pub fn data_type(self) -> DataType {
        match self {
            Item::Time | Item::Expires => DataType::Timestamp(TimeUnit::Microsecond, None),
            Item::Id
            | Item::InitialBid
            | Item::Reserve
            | Item::Seller
            | Item::Category
            | Item::Auction
            | Item::Bidder
            | Item::Price => DataType::Int64,
            Item::Extra
            | Item::Name
            | Item::EmailAddress
            | Item::CreditCard
            | Item::City
            | Item::State
            | Item::Thing
            | Item::Description
            | Item::Channel
            | Item::Url => DataType::Utf8View,
        }
    }
}

/// The events of one kind in a batch.
pub struct Records<'a> {
    /// How events are made.
    pub events: &'a Events,
    /// Their kind.
    pub kind: Kind,
    /// The row of each in the batch, ascending.
    pub found: Vec<(usize, Event)>,
    /// Rows of the batch.
    pub rows: usize,
    /// Which rows of the batch are of the kind.
    pub valid: NullBuffer,
}

impl Records<'_> {
    /// A field as a column of the batch, NULL in rows of other kinds.
    pub fn column(&self, item: Item) -> Result<ArrayRef> {
        let events = self.events;
        match item {
            Item::Id if self.kind == Kind::Person => self.numbers(|e| events.person(e)),
            Item::Id => self.numbers(|e| events.auction(e)),
            Item::Time => self.times(|e| events.time_ms(e.number)),
            Item::Expires => self.times(|e| events.expires_ms(e)),
            Item::InitialBid | Item::Price => self.numbers(|e| e.price(Draw::Price)),
            Item::Reserve => self.numbers(|e| e.price(Draw::Price) + e.price(Draw::Reserve)),
            Item::Seller => self.numbers(|e| events.seller(e)),
            Item::Category => {
                self.numbers(|e| FIRST_CATEGORY + e.below(Draw::Category, CATEGORIES))
            }
            Item::Auction => self.numbers(|e| events.auction_of_bid(e)),
            Item::Bidder => self.numbers(|e| events.bidder(e)),
            Item::Channel => self.cuts(|e| TEXTS.channel(channel_of(e)).0),
            Item::Url => self.cuts(|e| TEXTS.channel(channel_of(e)).1),
            Item::Thing => self.cuts(|e| words(e, Draw::Name, NAME_LENGTH)),
            Item::Description => self.cuts(|e| words(e, Draw::Description, DESCRIPTION_LENGTH)),
            Item::Extra => self.cuts(|e| self.extra(e)),
            Item::Name => self.texts(name),
            Item::EmailAddress => self.texts(email_address),
            Item::CreditCard => self.texts(credit_card),
            Item::City => self.texts(|e, out| out.extend_from_slice(city(e).as_bytes())),
            Item::State => self.texts(|e, out| out.extend_from_slice(state(e).as_bytes())),
        }
    }

    fn numbers(&self, value: impl Fn(Event) -> i64) -> Result<ArrayRef> {
        let mut values = vec![0; self.rows];
        self.found.iter().for_each(|&(row, event)| values[row] = value(event));
        Ok(Arc::new(Int64Array::new(values.into(), Some(self.valid.clone()))))
    }

    fn times(&self, value: impl Fn(Event) -> i64) -> Result<ArrayRef> {
        let mut values = vec![0; self.rows];
        self.found.iter().for_each(|&(row, e)| values[row] = value(e).saturating_mul(1_000));
        Ok(Arc::new(TimestampMicrosecondArray::new(values.into(), Some(self.valid.clone()))))
    }

    fn cuts(&self, value: impl Fn(Event) -> Cut) -> Result<ArrayRef> {
        let mut column = TextColumn::new(self.rows);
        self.found.iter().for_each(|&(row, event)| column.set_cut(row, value(event)));
        column.finish(&self.valid)
    }

    fn texts(&self, write: impl Fn(Event, &mut Vec<u8>)) -> Result<ArrayRef> {
        let (mut column, mut text) = (TextColumn::new(self.rows), Vec::new());
        for &(row, event) in &self.found {
            text.clear();
            write(event, &mut text);
            column.set(row, &text);
        }
        column.finish(&self.valid)
    }

    /// What is missing to the average size, more or less.
    fn extra(&self, event: Event) -> Cut {
        let (size, average) = match self.kind {
            Kind::Person => (person_size(event), self.events.person_size),
            Kind::Auction => (auction_size(event), self.events.auction_size),
            Kind::Bid => (4 * NUMBER_BYTES, self.events.bid_size),
        };
        let missing = average.saturating_sub(size);
        let spread = (missing as f64 * 0.2).round() as i64;
        let length = missing as i64 - spread + event.below(Draw::Extra, 2 * spread);
        TEXTS.letters(event.bits(Draw::Extra), length.max(0) as usize)
    }
}

fn person_size(event: Event) -> u64 {
    let mut text = Vec::new();
    name(event, &mut text);
    email_address(event, &mut text);
    credit_card(event, &mut text);
    NUMBER_BYTES + (text.len() + city(event).len() + state(event).len()) as u64
}

fn auction_size(event: Event) -> u64 {
    let name = TEXTS.bytes(words(event, Draw::Name, NAME_LENGTH)).len();
    let description = TEXTS.bytes(words(event, Draw::Description, DESCRIPTION_LENGTH)).len();
    6 * NUMBER_BYTES + (name + description) as u64
}

fn words(event: Event, draw: Draw, length: usize) -> Cut {
    let bits = event.bits(draw);
    // The place is taken from the lower bits, the length from the upper ones.
    let more = (bits >> 40) as usize % (length - WORDS_LENGTH_MIN);
    TEXTS.words(bits, WORDS_LENGTH_MIN + more)
}

fn channel_of(event: Event) -> usize {
    match event.below(Draw::ChannelIsHot, 2) > 0 {
        true => event.below(Draw::Channel, HOT as i64) as usize,
        false => HOT + event.below(Draw::Channel, CHANNELS as i64) as usize,
    }
}

fn one_of<'a>(event: Event, draw: Draw, list: &[&'a str]) -> &'a str {
    list[event.below(draw, list.len() as i64) as usize]
}

fn city(event: Event) -> &'static str {
    one_of(event, Draw::City, &CITIES)
}

fn state(event: Event) -> &'static str {
    one_of(event, Draw::State, &STATES)
}

fn name(event: Event, out: &mut Vec<u8>) {
    out.extend_from_slice(one_of(event, Draw::Name, &FIRST_NAMES).as_bytes());
    out.push(b' ');
    out.extend_from_slice(one_of(event, Draw::Surname, &LAST_NAMES).as_bytes());
}

fn email_address(event: Event, out: &mut Vec<u8>) {
    out.extend_from_slice(TEXTS.bytes(words(event, Draw::Mailbox, MAILBOX_LENGTH)));
    out.push(b'@');
    out.extend_from_slice(TEXTS.bytes(words(event, Draw::Domain, DOMAIN_LENGTH)));
    out.extend_from_slice(b".com");
}

/// Four groups of four digits.
fn credit_card(event: Event, out: &mut Vec<u8>) {
    let mut digits = event.bits(Draw::Card);
    for place in 0..16 {
        if place > 0 && place % 4 == 0 {
            out.push(b' ');
        }
        out.push(b'0' + (digits % 10) as u8);
        digits /= 10;
    }
}
