//! What runs say to each other: a post arrives, finds its run, and is taken in the commit that
//! records its effect. One that finds none is answered in that run's name.

use outlast_engine::Input;
use outlast_engine::start;
use outlast_model::event::{DeliveryFailedCause, StartFailedCause};
use outlast_model::post::{ChildRequest, Post, PostBody, PostNo};
use outlast_model::start::{ConflictPolicy, StartRequest};
use outlast_model::task::RunNo;
use outlast_model::view::RunRef;
use outlast_model::{Refusal, Timestamp};

use super::Shard;
use crate::entry::{Letter, Sender};
use crate::points;
use crate::store::Store;

impl Shard {
    /// A post arrives.
    pub(super) fn post(&mut self, no: PostNo, post: Box<Post>, now: Timestamp, store: &dyn Store) {
        points::pass("post.arrived");
        if let PostBody::StartChild(request) = &post.body {
            let request = (**request).clone();
            return self.start_child(no, request, &post, now, store);
        }
        match self.addressee(&post) {
            Some(run) => self.hand_over(no, run, post, now, store),
            None => self.undelivered(no, &post, DeliveryFailedCause::NotFound),
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
        (is_exact || !wants_exact).then_some(no)
    }

    fn hand_over(
        &mut self,
        no: PostNo,
        run: RunNo,
        post: Box<Post>,
        now: Timestamp,
        store: &dyn Store,
    ) {
        if let PostBody::Terminate { reason } = post.body {
            // Never queues, like any terminate.
            if let Some(entry) = self.runs.get_mut(&run) {
                entry.taken.push(no);
            }
            return self.terminate(run, reason, None, now, store);
        }
        let input = Input::Post(post);
        let from = Sender::Post(no);
        self.deliver(run, Letter { input, from });
    }

    /// Nobody is there to take it: its sender is told, in the same number, so that the sender's
    /// commit takes it. One that asks for no answer is forgotten.
    pub(super) fn undelivered(&mut self, no: PostNo, post: &Post, cause: DeliveryFailedCause) {
        match post.undelivered(cause) {
            Some(answer) => self.batch.posts.push((RunNo(0), no, Box::new(answer))),
            None => self.batch.forgotten.push(no),
        }
    }

    fn start_child(
        &mut self,
        no: PostNo,
        child: ChildRequest,
        post: &Post,
        now: Timestamp,
        store: &dyn Store,
    ) {
        let seq = child.parent.seq;
        let request = start_request(child);
        let failed = match self.child_may_start(&request, store) {
            Ok(true) => return self.begin_child(no, request, post, now),
            // It is there already: this is an echo.
            Ok(false) => return self.batch.forgotten.push(no),
            Err(cause) => Some(cause),
        };
        let answer = Post {
            from: post.to.clone(),
            to: post.from.clone(),
            body: PostBody::ChildStarted { seq, failed },
        };
        self.batch.posts.push((RunNo(0), no, Box::new(answer)));
    }

    fn child_may_start(
        &self,
        request: &StartRequest,
        store: &dyn Store,
    ) -> Result<bool, StartFailedCause> {
        if self.has_no_code_for(request) {
            return Err(StartFailedCause::NotRegistered);
        }
        let taken = |_: Refusal| StartFailedCause::AlreadyExists;
        let existing = self.existing(request, store).map_err(taken)?;
        let existing = existing.as_ref().map(|(existing, _)| existing);
        if existing.is_some_and(|existing| existing.run_id == request.run_id) {
            return Ok(false);
        }
        match start::decide(request, existing) {
            start::Verdict::Start => Ok(true),
            start::Verdict::Refuse(_)
            | start::Verdict::Attach
            | start::Verdict::TerminateThenStart => Err(StartFailedCause::AlreadyExists),
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
        match self.begin(request, now) {
            Ok(mut entry) => {
                entry.taken.push(no);
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
            // A run that cannot even begin: the parent hears of it as of any that cannot.
            Err(_) => self.batch.forgotten.push(no),
        }
    }
}

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
        parent: Some(Box::new(child.parent)),
    }
}
