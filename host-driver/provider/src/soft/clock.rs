//! Transport time: nanoseconds that the timers of the transport count in.
//!
//! A simulated card is thousands of times slower than a real one. Its own time goes on while it works, and stands still while it
//! waits for programs; so timers follow the card while it works, and a fraction of the wall clock while it sleeps: a frame that is
//! lost leaves everything asleep, and must be sent again all the same.
use std::time::Instant;

/// What a card says of its time: nanoseconds, and whether it sleeps until somebody wakes it. `None`: it has no time of its own, as
/// real ones, and the wall clock counts.
pub type CardTime = Box<dyn Fn() -> (u64, bool) + Send + Sync>;

/// Share of the wall clock that counts while the card sleeps: the peer whose answer is missing may be simulated meanwhile.
const ASLEEP: u64 = 16;

pub struct Clock {
    card: Option<CardTime>,
    began: Instant,
    now: u64,
    /// Card time, sleep and wall clock when last looked at.
    seen: (u64, bool, u64),
}

impl Clock {
    pub fn new(card: Option<CardTime>) -> Clock {
        let (ns, asleep) = card.as_ref().map_or((0, false), |c| c());
        Clock {
            card,
            began: Instant::now(),
            now: 1,
            seen: (ns, asleep, 0),
        }
    }

    /// Looks at the clocks; what [`Clock::now`] says until the next look.
    pub fn look(&mut self) -> u64 {
        let wall = self.began.elapsed().as_nanos() as u64;
        let Some(card) = &self.card else {
            self.now = wall + 1;
            return self.now;
        };
        let (ns, asleep) = card();
        self.now += Self::step(self.seen, (ns, asleep, wall));
        self.seen = (ns, asleep, wall);
        self.now
    }

    fn step(old: (u64, bool, u64), new: (u64, bool, u64)) -> u64 {
        let worked = new.0.saturating_sub(old.0);
        let slept = new.2.saturating_sub(old.2) / ASLEEP;
        if worked == 0 && old.1 && new.1 {
            slept
        } else {
            worked
        }
    }

    pub fn now(&self) -> u64 {
        self.now
    }

    /// How long to sleep, in wall clock, until the time may be `deadline`: no clock goes faster than that one.
    pub fn wait(&self, deadline: u64) -> u64 {
        deadline.saturating_sub(self.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_the_cards_while_it_works_and_goes_on_slowly_while_it_sleeps() {
        assert_eq!(Clock::step((100, false, 0), (150, false, 1_000_000)), 50);
        assert_eq!(
            Clock::step((100, false, 0), (100, false, 1_000_000)),
            0,
            "it works, slowly"
        );
        assert_eq!(Clock::step((100, true, 0), (100, true, 1_600)), 100);
        assert_eq!(
            Clock::step((100, true, 0), (107, true, 1_600)),
            7,
            "it was awake in between"
        );
    }
}
