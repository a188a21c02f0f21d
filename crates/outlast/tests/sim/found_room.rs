//! Stories of commits that were not written: what they decided is taken back, and nothing else.

use outlast_model::start::ConflictPolicy;
use outlast_model::task::{AttemptOutcome, AttemptResult};
use outlast_model::{EventKind, Record, RunId};
use outlast_service::mail::Mail;

use crate::found::{CALL, SHAPE, Story, request};
use crate::sim::disk::event;
use crate::sim::driver::identity;
use crate::sim::plan::{self, Node};
use crate::sim::program::encoded;

/// A start that replaces a run was written without the end of that run.
#[test]
fn a_run_is_replaced_as_a_whole_or_not_at_all() {
    let mut story = Story::new(SHAPE);
    story.start("w", vec![Node::Recv(true)]);
    story.settle();
    let mut start = request("w", vec![Node::Recv(true)]);
    start.conflict = ConflictPolicy::TerminateExisting;
    start.run_id = RunId::v7(1, 77);
    start.request_id = Some("another".into());
    story.start_with(start, Box::new(|_| {}));
    let task = story.next().expect("the new run begins");
    story.answer(&task);
    story.process.take_batch();
    let batch = story.process.parcels.pop_front().expect("both are decided");
    assert_eq!(batch.commits.len(), 2);
    let (pieces, _) = batch.pieces();
    let sizes: Vec<usize> = pieces.iter().map(|piece| piece.commits.len()).collect();
    assert_eq!(sizes, [2]);
}

/// Whatever was in a commit that was not written is there again, in its order.
#[test]
fn an_outcome_in_a_commit_that_was_not_written_counts_when_there_is_room() {
    let mut story = Story::new(SHAPE);
    let call = plan::Call {
        attempts: 1,
        ..CALL
    };
    story.start("w", vec![Node::Activity(call)]);
    story.settle();
    let running = story.world.running().remove(0);
    story.world.remove(running.token);
    story.process.ramp.ended(running.token.kind);
    let token = running.token;
    let said = identity(&running);
    let result = AttemptResult::Completed(encoded(&said));
    story.accept(Mail::Outcomes(vec![AttemptOutcome { token, result }]));
    let task = story.next().expect("the code sees it");
    story.answer(&task);
    story.no_room();
    story.settle();
    assert!(!story.is_closed("w"), "nobody said that there is room");
    story.process.shard.resume(1);
    story.settle();
    assert!(story.is_closed("w"));
    let no = story.disk.rows().remove(0).no;
    let is_result = |record: &Record| matches!(event(record), Some(event) if matches!(event.kind, EventKind::ActivityCompleted { .. }));
    assert!(story.disk.has(no, is_result), "it was not tried again");
}
