//! What the client does with one run: start it, send it messages, let it end in one of three
//! ways, ask for its result. A machine, so that an answer of any process moves it on.

use super::record::{Answer, Call};
use crate::lot::mix;

/// Where the client stands with one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The start is not answered yet.
    Starting,
    /// So many messages are not answered yet.
    Sending(u64),
    /// What ends the run is not answered yet.
    Closing,
    /// The result is not there yet.
    Waiting,
    /// Nothing is left to do.
    Over,
}

/// The client of one run.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) trip: String,
    lot: u64,
    pub(crate) state: State,
    values: u64,
}

impl Script {
    pub(crate) fn new(seed: u64, number: u64) -> Self {
        let trip = format!("trip-{number}");
        // Values are unique among all runs.
        Self {
            trip,
            lot: mix(seed ^ mix(number)),
            state: State::Starting,
            values: number * 100,
        }
    }

    /// The first request.
    pub(crate) fn open(&self) -> Call {
        Call::Start
    }

    /// An answer arrived; what is asked next?
    pub(crate) fn answered(&mut self, call: &Call, answer: &Answer) -> Vec<Call> {
        let is_refused = matches!(answer, Answer::Refused(_));
        let (next, calls) = match (&self.state, call) {
            (State::Starting, Call::Start) if is_refused => (State::Over, vec![]),
            (State::Starting, Call::Start) => match self.lot % 4 {
                0 => (State::Closing, self.close()),
                count => (State::Sending(count), self.send(count)),
            },
            (State::Sending(1), Call::Add(_) | Call::Enter(_)) => (State::Closing, self.close()),
            (State::Sending(left), Call::Add(_) | Call::Enter(_)) => {
                (State::Sending(left - 1), vec![])
            }
            (State::Closing, Call::Finish | Call::Cancel | Call::Terminate) => {
                (State::Waiting, vec![Call::Result])
            }
            (State::Waiting, Call::Result) => (State::Over, vec![]),
            // A message that raced with the end: whatever became of it, nothing follows.
            (State::Closing | State::Waiting | State::Over, Call::Add(_) | Call::Enter(_)) => {
                (self.state.clone(), vec![])
            }
            (
                State::Starting | State::Sending(_) | State::Closing | State::Waiting | State::Over,
                Call::Start
                | Call::Add(_)
                | Call::Enter(_)
                | Call::Ask
                | Call::Finish
                | Call::Cancel
                | Call::Terminate
                | Call::Result
                | Call::Retry,
            ) => (self.state.clone(), vec![]),
        };
        self.state = next;
        calls
    }

    /// Values as messages and as updates, and a question among them.
    fn send(&mut self, count: u64) -> Vec<Call> {
        let mut calls: Vec<Call> = (0..count).map(|_| self.add()).collect();
        calls.insert(1, Call::Ask);
        calls
    }

    fn add(&mut self) -> Call {
        self.values += 1;
        if mix(self.lot ^ self.values).is_multiple_of(3) {
            Call::Enter(self.values)
        } else {
            Call::Add(self.values)
        }
    }

    /// Most runs end by themselves; in half of them another message races with the end.
    fn close(&mut self) -> Vec<Call> {
        let lot = self.lot >> 8;
        let end = match lot % 20 {
            0 | 1 => Call::Cancel,
            2 => Call::Terminate,
            _ => Call::Finish,
        };
        if (lot >> 8).is_multiple_of(2) {
            vec![end, self.add()]
        } else {
            vec![end]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the lot, a script that is answered comes to its end and asks for the result.
    #[test]
    fn every_script_ends_with_its_result() {
        for number in 0..200 {
            let mut script = Script::new(7, number);
            let mut open = vec![script.open()];
            let mut asked = Vec::new();
            while let Some(call) = open.pop() {
                open.extend(script.answered(&call, &Answer::Done));
                asked.push(call);
            }
            assert_eq!(script.state, State::Over, "{asked:?}");
            assert!(asked.contains(&Call::Result));
        }
    }

    #[test]
    fn a_refused_start_ends_the_script() {
        let mut script = Script::new(7, 1);
        let refused = Answer::Refused("OL-1004".into());
        assert_eq!(script.answered(&Call::Start, &refused), []);
        assert_eq!(script.state, State::Over);
    }
}
