//! What follows from an event's number: its kind, its time, and the ids that it may speak of.

use serde::{Deserialize, Serialize};

use crate::connectors::streaming::Stream;

/// The number of a table's first event, and how much greater an event's id is than its number.
const FIRST_NUMBER: i64 = 1;
const FIRST_ID: i64 = 1;
/// The first ids of persons and auctions.
const FIRST_PERSON: i64 = 1000;
const FIRST_AUCTION: i64 = 1000;
/// Of so many persons, or auctions, that follow each other one is hot.
const HOT_EVERY: i64 = 100;
/// So many persons and auctions that do not exist yet may be spoken of.
const LEAD: i64 = 10;
/// Persons that still do something.
const ACTIVE_PERSONS: i64 = 1000;
/// Auctions that are open at a time, about.
const OPEN_AUCTIONS: i64 = 100;
/// The seed of all values.
const SEED: u64 = 0x6e65_786d;

/// The kinds of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// Someone registers.
    Person,
    /// Someone offers something.
    Auction,
    /// Someone bids.
    Bid,
}

/// Values that are drawn for an event; each has numbers of its own.
#[derive(Debug, Clone, Copy)]
pub enum Draw {
    /// Whether the auction of a bid is a hot one.
    AuctionIsHot,
    /// Which auction it is otherwise.
    Auction,
    /// Whether a bidder or a seller is a hot one.
    PersonIsHot,
    /// Which person it is otherwise.
    Person,
    /// The price of a bid, or the first of an auction.
    Price,
    /// What an auction must bring beyond its first price.
    Reserve,
    /// How long an auction is open.
    Length,
    /// What an auction belongs to.
    Category,
    /// Whether a bid comes through a popular channel.
    ChannelIsHot,
    /// Which channel it is.
    Channel,
    /// A person's or a thing's name.
    Name,
    /// The other part of a person's name.
    Surname,
    /// A mail address before its sign.
    Mailbox,
    /// A mail address behind its sign.
    Domain,
    /// The number of a credit card.
    Card,
    /// Where a person lives.
    City,
    /// The state where a person lives.
    State,
    /// What an auction offers.
    Description,
    /// What fills the event up to its size.
    Extra,
}

/// How events are made. Rates are events a second, sizes are bytes, ratios say how many of how many are hot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Events {
    /// Events a second of event time.
    pub rate: u64,
    /// When it all begins, in milliseconds since 1970.
    pub base_ms: i64,
    /// Of so many events …
    pub persons: u64,
    /// … so many are auctions …
    pub auctions: u64,
    /// … and so many are bids.
    pub bids: u64,
    /// Average size of persons.
    pub person_size: u64,
    /// Average size of auctions.
    pub auction_size: u64,
    /// Average size of bids.
    pub bid_size: u64,
    /// One of so many bids is not for a hot auction.
    pub hot_auctions: u64,
    /// One of so many bids is not by a hot bidder.
    pub hot_bidders: u64,
    /// One of so many auctions is not by a hot seller.
    pub hot_sellers: u64,
}

impl Default for Events {
    fn default() -> Self {
        Events {
            rate: 10_000,
            // 2015-07-15.
            base_ms: 1_436_918_400_000,
            persons: 1,
            auctions: 3,
            bids: 46,
            person_size: 200,
            auction_size: 500,
            bid_size: 100,
            hot_auctions: 2,
            hot_bidders: 4,
            hot_sellers: 4,
        }
    }
}

/// One event.
#[derive(Debug, Clone, Copy)]
pub struct Event {
    /// Tells its kind and the persons and auctions that exist.
    pub id: i64,
    /// Tells its time.
    pub number: i64,
}

impl Event {
    /// The event of a row.
    pub fn of(row: u64) -> Self {
        let number = FIRST_NUMBER.saturating_add_unsigned(row);
        Event { id: number.saturating_add(FIRST_ID), number }
    }

    /// Any number that the event draws, from 0 and below `bound`, which is greater than 0.
    pub fn below(self, draw: Draw, bound: i64) -> i64 {
        Stream::new(SEED, draw as u64).below(self.id as u64, bound.max(1) as u64) as i64
    }

    /// All of 64 bits.
    pub fn bits(self, draw: Draw) -> u64 {
        Stream::new(SEED, draw as u64).bits(self.id as u64)
    }

    /// A price in cents, from 1 to 1,000,000 units of money; most are low.
    pub fn price(self, draw: Draw) -> i64 {
        let unit = Stream::new(SEED, draw as u64).unit(self.id as u64);
        (10_f64.powf(unit * 6.0) * 100.0).round() as i64
    }
}

impl Events {
    /// Events after which the kinds come again.
    pub fn total(&self) -> u64 {
        self.persons + self.auctions + self.bids
    }

    /// The kind of an event.
    pub fn kind(&self, event: Event) -> Kind {
        let place = event.id as u64 % self.total();
        if place < self.persons {
            Kind::Person
        } else if place < self.persons + self.auctions {
            Kind::Auction
        } else {
            Kind::Bid
        }
    }

    /// When an event happens, in milliseconds since 1970.
    pub fn time_ms(&self, number: i64) -> i64 {
        let us = i128::from(number) * 1_000_000 / i128::from(self.rate);
        self.base_ms.saturating_add(i64::try_from(us / 1_000).unwrap_or(i64::MAX))
    }

    /// The number, from 0, of the person that came last, the event's own included.
    fn last_person(&self, event: Event) -> i64 {
        let (total, persons) = (self.total() as i64, self.persons as i64);
        event.id / total * persons + (event.id % total).min(persons - 1)
    }

    /// The number, from 0, of the auction that came last, the event's own included; -1 if there was none.
    fn last_auction(&self, event: Event) -> i64 {
        let (persons, auctions) = (self.persons as i64, self.auctions as i64);
        let (round, place) = (event.id / self.total() as i64, event.id % self.total() as i64);
        match self.kind(event) {
            // The auctions of this round are still to come.
            Kind::Person => (round - 1) * auctions + auctions - 1,
            Kind::Auction => round * auctions + place - persons,
            Kind::Bid => round * auctions + auctions - 1,
        }
    }

    /// The id of the person that the event is.
    pub fn person(&self, event: Event) -> i64 {
        self.last_person(event) + FIRST_PERSON
    }

    /// The id of the auction that the event is.
    pub fn auction(&self, event: Event) -> i64 {
        self.last_auction(event) + FIRST_AUCTION
    }

    /// The auction that a bid is for: mostly the first of the hundred that came last, else any that may be open.
    pub fn auction_of_bid(&self, event: Event) -> i64 {
        let last = self.last_auction(event);
        if event.below(Draw::AuctionIsHot, self.hot_auctions as i64) > 0 {
            return last / HOT_EVERY * HOT_EVERY + FIRST_AUCTION;
        }
        let least = (last - OPEN_AUCTIONS).max(0);
        least + event.below(Draw::Auction, last - least + 1 + LEAD) + FIRST_AUCTION
    }

    /// Who bids: mostly the second of the hundred persons that came last.
    pub fn bidder(&self, event: Event) -> i64 {
        match event.below(Draw::PersonIsHot, self.hot_bidders as i64) > 0 {
            true => self.last_person(event) / HOT_EVERY * HOT_EVERY + 1 + FIRST_PERSON,
            false => self.any_person(event),
        }
    }

    /// Who sells: mostly the first of the hundred persons that came last.
    pub fn seller(&self, event: Event) -> i64 {
        match event.below(Draw::PersonIsHot, self.hot_sellers as i64) > 0 {
            true => self.last_person(event) / HOT_EVERY * HOT_EVERY + FIRST_PERSON,
            false => self.any_person(event),
        }
    }

    fn any_person(&self, event: Event) -> i64 {
        let persons = self.last_person(event) + 1;
        let active = persons.clamp(0, ACTIVE_PERSONS);
        persons - active + event.below(Draw::Person, active + LEAD) + FIRST_PERSON
    }

    /// When an auction is over, in milliseconds since 1970: as many are open at a time as should be.
    pub fn expires_ms(&self, event: Event) -> i64 {
        let now = self.time_ms(event.number);
        let ahead = OPEN_AUCTIONS * self.total() as i64 / (self.auctions as i64).max(1);
        let horizon = self.time_ms(event.number.saturating_add(ahead)) - now;
        now + 1 + event.below(Draw::Length, (horizon * 2).max(1))
    }
}
