//! What runs say to each other: a post arrives, finds its run, and is taken in the commit that
//! records its effect. One that finds none is answered in that run's name.

use outlast_engine::Input;
use outlast_engine::start;
use outlast_model::Timestamp;
use outlast_model::event::{DeliveryFailedCause, StartFailedCause};
use outlast_model::planted::Bug;
use outlast_model::post::{ChildRequest, Post, PostBody, PostNo};
use outlast_model::start::{ConflictPolicy, StartRequest};
use outlast_model::task::RunNo;
use outlast_model::view::RunRef;

use super::Shard;
use super::visit::READ_AGAIN;
use crate::entry::{Letter, Sender};
use crate::points;
use crate::store::Store;

impl Shard {
    /// A post arrives.
    pub(super) fn post(&mut self, no: PostNo, post: Box<Post>, now: Timestamp, store: &dyn Store) {
        points::pass("post.arrived");
        let target = &post.to.workflow_id;
        if self
            .postponed
            .iter()
            .any(|(_, _, p)| p.to.workflow_id == *target)
        {
            // It must not overtake what was said to the same run before.
            return self.postponed.push_back((now, no, post));
        }
        if let PostBody::StartChild(request) = &post.body {
            let request = (**request).clone();
            return self.start_child(no, request, post, now, store);
        }
        match self.addressee(&post) {
            Some(run) => self.hand_over(no, run, post, now, store),
            None => self.undelivered(no, &post, DeliveryFailedCause::NotFound),
        }
    }

    /// Only with a bug planted: what is in no commit yet arrives.
    pub(super) fn say_early(&mut self, now: Timestamp, store: &dyn Store) {
        if !Self::has_planted(Bug::PostBeforeCommit) {
            return;
        }
        for (_, no, post) in std::mem::take(&mut self.batch.posts) {
            self.post(no, post, now, store);
        }
    }

    /// The open run a post is for. Answers are for the very run that asked, everything else for
    /// its chain.
    fn addressee(&self, post: &Post) -> Option<RunNo> {
        let no = self.open(&post.to)?;
        let entry = self.runs.get(&no)?;
        let is_exact = Some(entry.row.run_id) == post.to.run_id;
        let wants_exact = match &post.body {
            PostBody::ChildStarted { .. }
            | PostBody::ChildEnded { .. }
            | PostBody::SignalDelivered { .. }
            | PostBody::CancelDelivered { .. } => true,
            PostBody::StartChild(_)
            | PostBody::Signal { .. }
            | PostBody::Cancel { .. }
            | PostBody::Terminate { .. } => false,
        };
        let is_lost = Self::has_planted(Bug::ChildOutcomeLost) && entry.run.is_none();
        (is_exact && !is_lost || !wants_exact).then_some(no)
    }

    fn hand_over(
        &mut self,
        no: PostNo,
        run: RunNo,
        post: Box<Post>,
        now: Timestamp,
        store: &dyn Store,
    ) {
        let is_terminate = matches!(post.body, PostBody::Terminate { .. });
        let is_busy = self.runs.get(&run).is_some_and(|e| e.slice.is_some());
        if !is_terminate && is_busy && Self::has_planted(Bug::PostWithoutEffect) {
            return self.batch.forgotten.push(no);
        }
        let input = Input::Post(post);
        let from = Sender::Post(no);
        let letter = Letter::new(input, from);
        if is_terminate {
            // Never queues, like any terminate.
            return self.terminate(run, letter, now, store);
        }
        self.deliver(run, letter);
    }

    /// Nobody is there to take it: its sender is told, in the same number, so that the sender's
    /// commit takes it. One that asks for no answer is forgotten.
    pub(super) fn undelivered(&mut self, no: PostNo, post: &Post, cause: DeliveryFailedCause) {
        self.judged(no, post);
        match post.undelivered(cause) {
            Some(answer) => self.batch.posts.push((RunNo(0), no, Box::new(answer))),
            None => self.batch.forgotten.push(no),
        }
    }

    /// What becomes of a post was decided by what may not be on disk yet, and by no run.
    fn judged(&mut self, no: PostNo, post: &Post) {
        let letter = Letter::new(Input::Post(Box::new(post.clone())), Sender::Post(no));
        self.batch.causes.push((RunNo(0), letter));
    }

    fn start_child(
        &mut self,
        no: PostNo,
        child: ChildRequest,
        post: Box<Post>,
        now: Timestamp,
        store: &dyn Store,
    ) {
        let seq = child.parent.seq;
        let request = start_request(child);
        let failed = match self.child_may_start(&request, store) {
            Ok(Child::Starts) => return self.begin_child(no, request, &post, now),
            // It is there already: this is an echo.
            Ok(Child::Exists) => {
                self.judged(no, &post);
                return self.batch.forgotten.push(no);
            }
            Ok(Child::Fails(cause)) => Some(cause),
            Err(Unread) => {
                let again = now.after(READ_AGAIN);
                return self.postponed.push_back((again, no, post));
            }
        };
        self.judged(no, &post);
        let answer = Post {
            from: post.to.clone(),
            to: post.from.clone(),
            body: PostBody::ChildStarted { seq, failed },
        };
        self.batch.posts.push((RunNo(0), no, Box::new(answer)));
    }

    fn child_may_start(&self, request: &StartRequest, store: &dyn Store) -> Result<Child, Unread> {
        if self.has_no_code_for(request) {
            return Ok(Child::Fails(StartFailedCause::NotRegistered));
        }
        let existing = self.existing(request, store).map_err(|_| Unread)?;
        let existing = existing.as_ref().map(|(existing, _)| existing);
        if existing.is_some_and(|existing| existing.run_id == request.run_id) {
            return Ok(Child::Exists);
        }
        Ok(match start::decide(request, existing) {
            start::Verdict::Start => Child::Starts,
            start::Verdict::Refuse(_)
            | start::Verdict::Attach
            | start::Verdict::TerminateThenStart => Child::Fails(StartFailedCause::AlreadyExists),
        })
    }

    /// What waited because the store could not say whether a child may start is tried again, in
    /// its order.
    pub(super) fn retry_posts(&mut self, now: Timestamp, store: &dyn Store) {
        let is_due = self.postponed.front().is_some_and(|(at, ..)| *at <= now);
        if is_due {
            for (_, no, post) in std::mem::take(&mut self.postponed) {
                self.post(no, post, now, store);
            }
        }
    }

    fn begin_child(&mut self, no: PostNo, request: StartRequest, post: &Post, now: Timestamp) {
        let Some(parent) = request.parent.clone() else {
            return self.batch.forgotten.push(no);
        };
        let from = RunRef {
            workflow_id: request.workflow_id.clone(),
            run_id: Some(request.run_id),
        };
        // It cannot fail, for a fresh run; if it did, the request would stay in the store.
        let Ok(mut entry) = self.begin(request, now) else {
            return;
        };
        entry.taken.push(no);
        let cause = Input::Post(Box::new(post.clone()));
        entry.keep(Some(cause), Sender::Post(no), now);
        entry.decision.posts.push(Post {
            from,
            to: post.from.clone(),
            body: PostBody::ChildStarted {
                seq: parent.seq,
                failed: None,
            },
        });
        self.settle_new(entry);
    }
}

/// Whether a child may start.
enum Child {
    Starts,
    Exists,
    Fails(StartFailedCause),
}

/// The store could not say.
struct Unread;

fn start_request(child: ChildRequest) -> StartRequest {
    StartRequest {
        workflow_id: child.workflow_id,
        run_id: child.run_id,
        workflow_type: child.workflow_type,
        queue: child.queue,
        input: child.input,
        request_id: None,
        conflict: ConflictPolicy::Fail,
        reuse: child.reuse,
        run_timeout: child.run_timeout,
        task_timeout: None,
        priority: None,
        parent: Some(Box::new(child.parent)),
        headers: child.headers,
    }
}
