//! The ledger, sorted for questions.

use std::collections::{BTreeMap, BTreeSet};

use crate::chaos::record::{
    Answer, Call, ChildNo, Effect, LedgerSeq, Line, Record, ReqNo, Request,
};

/// What became of an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fate {
    pub(super) has_effect: bool,
    pub(super) ended: Option<LedgerSeq>,
    pub(super) failed: Option<LedgerSeq>,
}

/// The ledger, sorted for questions.
#[derive(Debug, Default)]
pub(super) struct Books {
    pub(super) requests: BTreeMap<ReqNo, Request>,
    pub(super) answers: BTreeMap<ReqNo, Answer>,
    pub(super) begins: BTreeMap<LedgerSeq, Effect>,
    /// The last attempt of each activity or step of a run.
    last: BTreeMap<(String, String), LedgerSeq>,
    asked: BTreeSet<(String, Call)>,
    pub(super) fates: BTreeMap<LedgerSeq, Fate>,
    pub(super) kills: BTreeMap<ChildNo, LedgerSeq>,
    pub(super) exits: BTreeMap<ChildNo, LedgerSeq>,
}

impl Books {
    pub(super) fn new(lines: &[Line]) -> Self {
        let mut books = Self::default();
        for line in lines {
            books.enter(line);
        }
        books
    }

    fn enter(&mut self, line: &Line) {
        let seq = line.seq;
        match &line.record {
            Record::Req(request) => {
                let asked = (request.trip.clone(), request.call.clone());
                self.asked.insert(asked);
                self.requests.insert(request.req, request.clone());
            }
            Record::Ack(req, answer) => {
                self.answers.insert(*req, answer.clone());
            }
            Record::Begin(effect) => {
                let key = (effect.run.clone(), effect.name.clone());
                self.last.insert(key, seq);
                self.begins.insert(seq, effect.clone());
            }
            Record::Effect(begin) => self.fates.entry(*begin).or_default().has_effect = true,
            Record::End(begin) => self.fates.entry(*begin).or_default().ended = Some(seq),
            Record::Fail(begin) => self.fates.entry(*begin).or_default().failed = Some(seq),
            Record::Start(_) => {}
            Record::Kill(child, _) => {
                self.kills.insert(*child, seq);
            }
            Record::Exit(child) => {
                self.exits.insert(*child, seq);
            }
        }
    }

    pub(super) fn fate(&self, begin: LedgerSeq) -> Fate {
        self.fates.get(&begin).copied().unwrap_or_default()
    }

    /// Whether another attempt of the same began after this one.
    pub(super) fn has_later(&self, begin: LedgerSeq, effect: &Effect) -> bool {
        let key = (effect.run.clone(), effect.name.clone());
        self.last.get(&key).is_some_and(|last| *last > begin)
    }

    /// What was asked of this trip and refused, with the reason.
    pub(super) fn refused(&self, trip: &str) -> Vec<(&Call, &str)> {
        let answers = self.answers.iter();
        let refused = answers.filter_map(|(req, answer)| match answer {
            Answer::Refused(why) => Some((self.requests.get(req)?, why.as_str())),
            Answer::Done | Answer::Told(_) | Answer::Ended(_) | Answer::Unknown(_) => None,
        });
        let mine = refused.filter(|(request, _)| request.trip == trip);
        mine.map(|(request, why)| (&request.call, why)).collect()
    }

    /// Whether this was ever asked of this trip.
    pub(super) fn was_asked(&self, trip: &str, call: &Call) -> bool {
        self.asked.contains(&(trip.to_owned(), call.clone()))
    }
}
