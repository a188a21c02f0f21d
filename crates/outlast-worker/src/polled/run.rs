//! One run at a polled backend: one activation at a time, one answer to each.
//!
//! ```text
//!   Idle --arrives--> Handed --answer--> Answering --answered--> Idle
//!                       |                    ^
//!                       | give up            | answer: the thread is back,
//!                       v                    | what it says is thrown away
//!                  GivenUp ------------------+
//!                       | answered
//!                       v
//!                     Stuck --answer: the thread is back--> Idle
//! ```
//!
//! Why what arrives meanwhile waits: an answer that is under way must reach the backend before the
//! next one, and code that is stuck must not be started a second time. Only the request to forget
//! a stuck run is answered at once: its instance is out of reach, and nobody will use it.

/// Where a run stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Nothing is to be answered.
    #[default]
    Idle,
    /// An activation is with an engine thread, or waits for one.
    Handed,
    /// Its answer is on its way.
    Answering,
    /// Its code does not come back; the failure is on its way.
    GivenUp,
    /// Its code does not come back; the backend knows.
    Stuck,
}

/// What happens to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// The backend sends something.
    Arrive,
    /// The backend wants it forgotten.
    ArriveEviction,
    /// A thread answers.
    Answer,
    /// The watchdog answers for the thread.
    GiveUp,
    /// The backend has taken the answer, or never will.
    Answered,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Give it to an engine thread.
    HandOut,
    /// It waits until the run is idle.
    Wait,
    /// Send the answer.
    Send,
    /// Say at once that it is forgotten.
    SendForgotten,
    /// Hand out what waits.
    Next,
    /// Nothing.
    Nothing,
    /// There is nothing to answer: it was answered before.
    Refuse,
}

impl State {
    /// Applies one input.
    pub fn apply(self, input: Input) -> (Self, Step) {
        use State::{Answering, GivenUp, Handed, Idle, Stuck};
        match (self, input) {
            (Idle, Input::Arrive | Input::ArriveEviction) => (Handed, Step::HandOut),
            (Handed | Answering, Input::Arrive | Input::ArriveEviction)
            | (GivenUp | Stuck, Input::Arrive) => (self, Step::Wait),
            (GivenUp | Stuck, Input::ArriveEviction) => (self, Step::SendForgotten),

            (Handed, Input::Answer) => (Answering, Step::Send),
            (Handed, Input::GiveUp) => (GivenUp, Step::Send),
            (GivenUp, Input::Answer) => (Answering, Step::Nothing),
            (Stuck, Input::Answer) => (Idle, Step::Next),

            (Answering, Input::Answered) => (Idle, Step::Next),
            (GivenUp, Input::Answered) => (Stuck, Step::Nothing),

            (Idle | Answering, Input::Answer | Input::GiveUp)
            | (GivenUp | Stuck, Input::GiveUp)
            | (Idle | Handed | Stuck, Input::Answered) => (self, Step::Refuse),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [State; 5] = [
        State::Idle,
        State::Handed,
        State::Answering,
        State::GivenUp,
        State::Stuck,
    ];
    const INPUTS: [Input; 5] = [
        Input::Arrive,
        Input::ArriveEviction,
        Input::Answer,
        Input::GiveUp,
        Input::Answered,
    ];

    /// Every state against every input.
    const TABLE: &str = "\
Idle + Arrive: Handed, HandOut
Idle + ArriveEviction: Handed, HandOut
Idle + Answer: Idle, Refuse
Idle + GiveUp: Idle, Refuse
Idle + Answered: Idle, Refuse
Handed + Arrive: Handed, Wait
Handed + ArriveEviction: Handed, Wait
Handed + Answer: Answering, Send
Handed + GiveUp: GivenUp, Send
Handed + Answered: Handed, Refuse
Answering + Arrive: Answering, Wait
Answering + ArriveEviction: Answering, Wait
Answering + Answer: Answering, Refuse
Answering + GiveUp: Answering, Refuse
Answering + Answered: Idle, Next
GivenUp + Arrive: GivenUp, Wait
GivenUp + ArriveEviction: GivenUp, SendForgotten
GivenUp + Answer: Answering, Nothing
GivenUp + GiveUp: GivenUp, Refuse
GivenUp + Answered: Stuck, Nothing
Stuck + Arrive: Stuck, Wait
Stuck + ArriveEviction: Stuck, SendForgotten
Stuck + Answer: Idle, Next
Stuck + GiveUp: Stuck, Refuse
Stuck + Answered: Stuck, Refuse
";

    #[test]
    fn transition_table() {
        let mut table = String::new();
        for state in STATES {
            for input in INPUTS {
                let (next, step) = state.apply(input);
                table += &format!("{state:?} + {input:?}: {next:?}, {step:?}\n");
            }
        }
        assert_eq!(table, TABLE);
    }

    #[test]
    fn no_activation_is_answered_twice() {
        // Every path of six inputs: between two hand-outs there is at most one answer.
        let mut paths = vec![(State::Idle, 0_u32)];
        for _ in 0..6 {
            paths = paths
                .into_iter()
                .flat_map(|(state, open)| INPUTS.map(|input| (state, open, input)))
                .map(|(state, open, input)| {
                    let (next, step) = state.apply(input);
                    let open = match step {
                        Step::HandOut => open + 1,
                        Step::Send => open.checked_sub(1).expect("something to answer"),
                        Step::Wait
                        | Step::SendForgotten
                        | Step::Next
                        | Step::Nothing
                        | Step::Refuse => open,
                    };
                    assert!(open <= 1, "{state:?} {input:?}");
                    (next, open)
                })
                .collect();
        }
    }
}
