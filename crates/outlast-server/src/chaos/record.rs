//! What the ledger keeps, and what driver and worker say to each other: one JSON object a line.

use serde::{Deserialize, Serialize};

/// The number of a worker process, in the order of their starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct ChildNo(pub(crate) u64);

/// The number of a request of the driver. The same request sent again keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct ReqNo(pub(crate) u64);

/// The number the ledger gave to a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct LedgerSeq(pub(crate) u64);

/// What a client of the library does.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Call {
    /// Starts the run.
    Start,
    /// Sends a value that no other message has.
    Add(u64),
    /// Sends a value as an update, and waits until it is done.
    Enter(u64),
    /// Asks which values have arrived.
    Ask,
    /// Lets the run end.
    Finish,
    /// Asks the run to stop.
    Cancel,
    /// Ends the run.
    Terminate,
    /// Waits for the result.
    Result,
    /// Lets a run go on that was set aside.
    Retry,
}

/// A request on its way to the worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) req: ReqNo,
    pub(crate) trip: String,
    pub(crate) call: Call,
}

/// What the worker process says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Said {
    /// The application is open.
    Ready,
    /// The library answered. Said only after its future resolved.
    Answer(ReqNo, Answer),
    /// A named point is reached; the process waits there to be killed.
    Point(String),
}

/// What the library answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Answer {
    /// `Ok`: from here on it must not be lost.
    Done,
    /// The values that had arrived when it was asked: from here on they must not be lost.
    Told(Vec<u64>),
    /// The result of a run, as text.
    Ended(String),
    /// Not carried out, and why: code and text.
    Refused(String),
    /// Nobody can know; the same request will be sent again.
    Unknown(String),
}

/// One line of the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Record {
    /// A request is about to be sent for the first time.
    Req(Request),
    /// The library answered it.
    Ack(ReqNo, Answer),
    /// An attempt is about to have its effect.
    Begin(Effect),
    /// The effect itself, of the attempt that began with this record.
    Effect(LedgerSeq),
    /// The attempt returns its value: the number of its `Begin`.
    End(LedgerSeq),
    /// The attempt returns an error that was injected.
    Fail(LedgerSeq),
    /// A worker process starts.
    Start(ChildNo),
    /// It is about to be killed, and where.
    Kill(ChildNo, String),
    /// It is gone, and everything it ever said stands above this line.
    Exit(ChildNo),
}

/// Which attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Effect {
    pub(crate) trip: String,
    pub(crate) run: String,
    /// The name of the activity or step; each is called once in a run.
    pub(crate) name: String,
    /// 0 for steps, which do not know.
    pub(crate) attempt: u32,
    pub(crate) child: ChildNo,
    /// A random number of the workflow: the same on every replay.
    pub(crate) token: u64,
}

/// A record as it stands in the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) seq: LedgerSeq,
    /// Microseconds since the ledger began, by its own clock.
    pub(crate) us: u64,
    pub(crate) record: Record,
}
