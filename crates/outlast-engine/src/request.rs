//! Requests that had their effect: what a run remembers, so that none has it twice.
//!
//! A sender that missed an answer asks again, with the same id, soon. So the newest requests are
//! remembered, for a while: a run that is sent millions of signals, and a chain that never ends, stay
//! small. How many and how long is the service's to say; it says the same to every run.
//!
//! A promise is no request in this sense: it is settled once in its run, however long ago.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use minicbor::{Decode, Decoder, Encode, Encoder, decode, encode};
use outlast_model::task::is_settlement;
use outlast_model::{RequestId, Timestamp, limits};

use crate::rare::{Empty, Rare};
use crate::run::Run;

/// How many requests a run remembers, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The newest.
    pub count: usize,
    /// Since it had its effect.
    pub age: Duration,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            count: limits::REQUESTS_REMEMBERED,
            age: limits::REQUESTS_REMEMBERED_FOR,
        }
    }
}

/// Requests that had their effect, oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Requests {
    line: VecDeque<Seen>,
    /// The same, to be found. Derived, never stored.
    ids: BTreeSet<RequestId>,
}

/// A request and when it had its effect.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
struct Seen {
    #[n(0)]
    id: RequestId,
    #[n(1)]
    at: Timestamp,
}

impl Requests {
    fn add(&mut self, id: RequestId, at: Timestamp, window: Window) {
        if !self.ids.insert(id.clone()) {
            return;
        }
        self.line.push_back(Seen { id, at });
        let is_old = |seen: &Seen| seen.at.after(window.age) < at;
        while self.line.len() > window.count || self.line.front().is_some_and(is_old) {
            let Some(oldest) = self.line.pop_front() else {
                return;
            };
            self.ids.remove(&oldest.id);
        }
    }
}

impl Empty for Requests {
    fn empty() -> &'static Self {
        const {
            &Self {
                line: VecDeque::new(),
                ids: BTreeSet::new(),
            }
        }
    }
}

impl<C> Encode<C> for Requests {
    fn encode<W: encode::Write>(
        &self,
        e: &mut Encoder<W>,
        ctx: &mut C,
    ) -> Result<(), encode::Error<W::Error>> {
        self.line.encode(e, ctx)
    }
}

impl<'b, C> Decode<'b, C> for Requests {
    fn decode(d: &mut Decoder<'b>, ctx: &mut C) -> Result<Self, decode::Error> {
        let line: VecDeque<Seen> = VecDeque::decode(d, ctx)?;
        let ids = line.iter().map(|seen| seen.id.clone()).collect();
        Ok(Self { line, ids })
    }
}

impl Rare<Requests> {
    fn add(&mut self, id: RequestId, at: Timestamp, window: Window) {
        self.made().add(id, at, window);
    }
}

impl Run {
    /// How much it remembers. Known to the service alone, and told before anything is applied.
    pub fn remembers(&mut self, window: Window) {
        self.window = window;
    }

    /// Whether this request had its effect before.
    pub fn has_seen(&self, request_id: Option<&RequestId>) -> bool {
        request_id.is_some_and(|id| self.requests.ids.contains(id) || self.settled.contains(id))
    }

    /// A request had its effect.
    pub(crate) fn saw(&mut self, request_id: Option<&RequestId>, at: Timestamp) {
        let Some(id) = request_id.cloned() else {
            return;
        };
        if is_settlement(&id) {
            self.settled.insert(id);
        } else {
            self.requests.add(id, at, self.window);
        }
    }

    /// What earlier runs of the chain saw, and when. Those that were written without their times had
    /// them before this run began.
    pub(crate) fn inherit_requests(&mut self, ids: &[RequestId], seen: Option<&[Timestamp]>) {
        let times = seen.unwrap_or_default().iter().copied();
        let times = times.chain(core::iter::repeat(self.start_time()));
        for (id, at) in ids.iter().zip(times) {
            self.saw(Some(id), at);
        }
    }

    /// What the next run of the chain takes over: the newest, oldest first, with their times. A
    /// promise is settled once in each run: what nobody asked for goes on with its signal.
    pub(crate) fn requests_to_inherit(&self, now: Timestamp) -> (Vec<RequestId>, Vec<Timestamp>) {
        let line = &self.requests.line;
        let is_young = |seen: &&Seen| seen.at.after(self.window.age) >= now;
        let newest = line
            .iter()
            .skip(line.len().saturating_sub(self.window.count));
        let kept = newest.filter(is_young);
        kept.map(|seen| (seen.id.clone(), seen.at)).unzip()
    }

    /// In snapshots of earlier builds all requests are among those that settled a promise, without
    /// their times: they are as young as the snapshot.
    pub(crate) fn part_requests(&mut self) {
        if self.settled.iter().all(is_settlement) {
            return;
        }
        let all = core::mem::take(&mut self.settled);
        for id in all.iter() {
            self.saw(Some(id), self.last_event_time());
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use outlast_model::event::Started;
    use outlast_model::id::PromiseId;
    use outlast_model::task::promise_request;
    use outlast_model::{Event, EventId, EventKind, Fact, Headers, Payload, Record, Shared};
    use outlast_model::{RunId, WorkflowId, record};

    use super::*;

    const WINDOW: Window = Window {
        count: 3,
        age: Duration::from_secs(10),
    };

    fn at(seconds: u64) -> Timestamp {
        Timestamp(seconds * 1_000_000)
    }

    fn event(id: u64, time: Timestamp, kind: EventKind) -> Record {
        let id = EventId(id);
        Record::Event(Event { id, time, kind })
    }

    fn start() -> Record {
        let started = Started {
            workflow_id: WorkflowId::new("w"),
            run_id: RunId(1),
            workflow_type: "t".into(),
            queue: "default".into(),
            input: Payload::null(),
            request_id: None,
            run_timeout: None,
            parent: None,
            first_run_id: None,
            continued_from: None,
            headers: Headers::new(),
            priority: None,
            edition: None,
        };
        event(1, at(100), EventKind::Started(Shared::new(started)))
    }

    fn signal(id: u64, time: Timestamp, request: RequestId) -> Record {
        let kind = EventKind::Signaled {
            name: "s".into(),
            input: Payload::null(),
            request_id: Some(request),
            headers: Headers::new(),
        };
        event(id, time, kind)
    }

    fn request(n: u64) -> RequestId {
        format!("r-{n}").as_str().into()
    }

    fn load(records: &[Record]) -> Run {
        Run::load_with(None, &[record::encode(records)], WINDOW).expect("it folds")
    }

    fn known(run: &Run) -> Vec<u64> {
        let is_known = |n: &u64| run.has_seen(Some(&request(*n)));
        (0..10).filter(is_known).collect()
    }

    #[test]
    fn the_newest_are_remembered_for_a_while() {
        let times = [100, 101, 102, 103, 104];
        let signals = (0..).zip(times);
        let signals = signals.map(|(n, time)| signal(n + 2, at(time), request(n)));
        let mut records = Vec::from([start()]);
        records.extend(signals);
        let run = load(&records);
        assert_eq!(known(&run), [2, 3, 4]);
        // What comes later makes the others old; who asks again changes nothing.
        records.push(signal(7, at(113), request(4)));
        assert_eq!(known(&load(&records)), [2, 3, 4]);
        records.push(signal(8, at(113), request(5)));
        assert_eq!(known(&load(&records)), [3, 4, 5]);
        records.push(signal(9, at(114), request(6)));
        assert_eq!(known(&load(&records)), [4, 5, 6]);
        let run = load(&records);
        assert_eq!(run.requests_to_inherit(at(114)).0.len(), 3);
        let (ids, seen) = run.requests_to_inherit(at(115));
        assert_eq!(
            (ids, seen),
            (
                Vec::from([request(5), request(6)]),
                Vec::from([at(113), at(114)])
            )
        );
    }

    #[test]
    fn a_promise_stays_settled_whatever_came_since() {
        let settled = promise_request(&PromiseId::new("p"));
        let mut records = Vec::from([start(), signal(2, at(100), settled.clone())]);
        records.extend((0..9).map(|n| signal(n + 3, at(900 + n), request(n))));
        let run = load(&records);
        assert!(run.has_seen(Some(&settled)));
        assert!(!run.requests_to_inherit(at(909)).0.contains(&settled));
    }

    #[test]
    fn what_is_inherited_without_its_time_is_as_old_as_the_run() {
        let old = Fact::Inherited {
            request_ids: Vec::from([request(0), request(1)]),
            seen: None,
        };
        let mut records = Vec::from([start(), Record::Fact(old)]);
        assert_eq!(known(&load(&records)), [0, 1]);
        records.push(signal(2, at(111), request(2)));
        assert_eq!(known(&load(&records)), [2]);
    }

    #[test]
    fn a_snapshot_remembers_as_the_run_does() {
        let mut records = Vec::from([start()]);
        records.extend((0..5).map(|n| signal(n + 2, at(100 + n), request(n))));
        let whole = load(&records);
        let again = Run::load_with(Some(&whole.snapshot()), &[], WINDOW).expect("it loads");
        assert_eq!(again, whole);
        assert_eq!(known(&again), [2, 3, 4]);
    }

    #[test]
    fn a_snapshot_of_an_earlier_build_keeps_what_it_knew() {
        let mut run = load(&[start()]);
        let promise = promise_request(&PromiseId::new("p"));
        run.settled
            .extend([request(0), request(1), promise.clone()]);
        let again = Run::load_with(Some(&run.snapshot()), &[], WINDOW).expect("it loads");
        assert_eq!(known(&again), [0, 1]);
        assert!(again.has_seen(Some(&promise)));
        assert_eq!(again.settled.len(), 1);
        assert_eq!(
            again.requests_to_inherit(at(100)).0,
            [request(0), request(1)]
        );
    }
}
