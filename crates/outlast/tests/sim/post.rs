//! What runs say to each other, on its way: in order from one workflow to another, else delayed
//! and interleaved at will. A crash loses all of it; the store gives it back.

use std::collections::{BTreeMap, VecDeque};

use outlast_model::id::WorkflowId;
use outlast_model::post::{Post, PostBody, PostNo};
use outlast_model::record;
use outlast_service::batch::Batch;
use outlast_service::mail::Mail;
use outlast_service::store::Commit;

use super::driver::Simulation;

/// One post on its way.
#[derive(Clone, Debug)]
pub struct Letter {
    pub no: PostNo,
    pub post: Box<Post>,
    pub generation: u64,
}

/// All posts on their way, from whom to whom.
#[derive(Debug, Default)]
pub struct Ways(BTreeMap<(WorkflowId, WorkflowId), VecDeque<Letter>>);

impl Ways {
    fn put(&mut self, letter: Letter) {
        let from = letter.post.from.workflow_id.clone();
        let to = letter.post.to.workflow_id.clone();
        self.0.entry((from, to)).or_default().push_back(letter);
    }

    /// What a durable batch says to others.
    pub fn take_in(&mut self, batch: &mut Batch) {
        let generation = batch.generation;
        for (_, no, post) in batch.posts.drain(..) {
            self.put(Letter {
                no,
                post,
                generation,
            });
        }
    }

    /// What the store kept, read by a new life; nothing older is on its way any more.
    pub fn read_back(&mut self, posts: &[(PostNo, Vec<u8>)], generation: u64) {
        self.0.clear();
        for (no, bytes) in posts {
            let post = record::unframe::<Post>(bytes).expect("what was written decodes");
            self.put(Letter {
                no: *no,
                post: Box::new(post),
                generation,
            });
        }
    }

    /// All of them, lane by lane.
    pub fn into_letters(self) -> impl Iterator<Item = Letter> {
        self.0.into_values().flatten()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// From how many workflows to how many others something is on its way.
    pub fn lanes(&self) -> usize {
        self.0.len()
    }

    /// The oldest post of one lane.
    pub fn next(&mut self, lane: usize) -> Option<Letter> {
        let key = self.0.keys().nth(lane)?.clone();
        let queue = self.0.get_mut(&key)?;
        let letter = queue.pop_front();
        if queue.is_empty() {
            self.0.remove(&key);
        }
        letter
    }
}

impl Letter {
    pub fn into_mail(self) -> Mail {
        Mail::Post {
            no: self.no,
            post: self.post,
            generation: self.generation,
        }
    }
}

impl Simulation {
    /// Some post arrives; false if none is on its way.
    pub fn deliver_post(&mut self) -> bool {
        let lane = self.rng.index(self.process.ways.lanes());
        let Some(letter) = self.process.ways.next(lane) else {
            return false;
        };
        let Letter { no, post, .. } = &letter;
        let (from, to) = (&post.from.workflow_id, &post.to.workflow_id);
        let line = format!("post {} {from} to {to}: {}", no.0, name_of(&post.body));
        self.trace(&line);
        if !self.disk.has_post(*no) {
            self.desk
                .violation(format!("{line}, which is not in the store"));
        }
        self.mark_post(&post.body);
        let ended = match &post.body {
            PostBody::Terminate { .. } => Some(post.to.clone()),
            _ => None,
        };
        let now = self.now;
        let mail = letter.into_mail();
        self.process.shard.accept(mail, now, &self.process.store);
        if let Some(run) = ended {
            self.judge_terminated(&run);
        }
        true
    }

    fn mark_post(&self, body: &PostBody) {
        self.desk.hit(match body {
            PostBody::StartChild(_) => "post.start-child",
            PostBody::Signal { .. } => "post.signal",
            PostBody::Cancel { of: Some(_), .. } => "post.cancel",
            PostBody::Cancel { of: None, .. } => "post.parent-close-cancel",
            PostBody::Terminate { .. } => "post.parent-close-terminate",
            PostBody::ChildStarted { failed: None, .. } => "post.child-started",
            PostBody::ChildStarted { .. } => "post.child-not-started",
            PostBody::ChildEnded { .. } => "post.child-ended",
            PostBody::SignalDelivered { failed: None, .. } => "post.signal-delivered",
            PostBody::SignalDelivered { .. } => "post.signal-failed",
            PostBody::CancelDelivered { failed: None, .. } => "post.cancel-delivered",
            PostBody::CancelDelivered { .. } => "post.cancel-failed",
        });
    }

    /// A child that is to end with its parent does so at once, unless it cannot be read yet.
    fn judge_terminated(&self, run: &outlast_model::view::RunRef) {
        for no in self.process.shard.numbers() {
            let Some(audit) = self.process.shard.audit(no) else {
                continue;
            };
            let row = audit.row;
            let chain = row.first_run.unwrap_or(row.run_id);
            if Some(chain) == run.run_id && row.state.status.is_open() && audit.run.is_some() {
                let id = &row.workflow_id;
                self.desk
                    .violation(format!("{id} goes on although its parent has ended"));
            }
        }
    }

    /// Whatever a commit takes was durable before.
    pub fn judge_taken(&self, group: &[Commit]) {
        for no in group.iter().flat_map(|commit| &commit.taken) {
            if !self.disk.has_post(*no) {
                let no = no.0;
                self.desk
                    .violation(format!("post {no} is taken, and is not in the store"));
            }
        }
    }
}

fn name_of(body: &PostBody) -> String {
    match body {
        PostBody::StartChild(request) => format!("start child {}", request.parent.seq),
        PostBody::Signal { seq, .. } => format!("signal {seq}"),
        PostBody::ChildEnded { seq, .. } => format!("child {seq} ended"),
        other => format!("{other:?}"),
    }
}
