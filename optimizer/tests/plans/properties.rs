//! Plans that are chosen because a property is reused.
