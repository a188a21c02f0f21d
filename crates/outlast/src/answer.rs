//! Answers from outside: an activity hands out a token and returns, and whoever has the token
//! answers for it, from any process that has a client, also after a restart.
//!
//! The first answer counts; a second one, or one that comes after a timeout, is refused. Unlike a
//! promise, which workflow code makes, this is an activity in every other respect: it has
//! attempts, timeouts and heartbeats, and a failure is tried again as its retry policy says.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

use outlast_model::task::AttemptResult;
use outlast_model::{AnswerToken, Payload};
use serde::Serialize;

use crate::activity_ctx::why;
use crate::call_error::CallError;
use crate::client::App;
use crate::error::Error;
use crate::failure::IntoFailure;
use crate::outgoing::{Content, Encoded};
use crate::subject::Subject;
use crate::wire::as_application;

pub(crate) mod token;

/// Returned as the error of an activity: it has no outcome yet, somebody outside will answer.
/// Made by [`ActivityCtx::complete_later`](crate::ActivityCtx::complete_later).
#[must_use = "return it as the error of the activity: `Err(later.into())`"]
#[derive(Clone, Debug)]
pub struct Later {
    token: AnswerToken,
}

impl Later {
    pub(crate) fn new(token: AnswerToken) -> Self {
        Self { token }
    }

    /// What answers: text that fits into a URL. It is no secret: whoever may not answer must not
    /// see it.
    pub fn token(&self) -> &AnswerToken {
        &self.token
    }
}

impl fmt::Display for Later {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`complete_later` has its effect only as the error that an activity returns")
    }
}

impl StdError for Later {}

/// An answer on its way: `.await` returns when it is durable.
pub type Answering = Pin<Box<dyn Future<Output = Result<(), CallError>> + Send>>;

impl App {
    /// The attempt of an activity that waits for an answer from outside, by its token.
    pub fn activity(&self, token: impl AsRef<str>) -> OpenActivity {
        OpenActivity {
            app: self.clone(),
            token: AnswerToken::new(token.as_ref()),
        }
    }
}

/// An attempt that waits for an answer from outside. Every answer is refused as
/// [`Refusal::AttemptEnded`](crate::Refusal::AttemptEnded) if nobody waits for it any more.
#[derive(Clone, Debug)]
pub struct OpenActivity {
    app: App,
    token: AnswerToken,
}

impl OpenActivity {
    /// The activity is done, with this result.
    pub fn complete(&self, value: impl Serialize) -> Answering {
        let result = self.payload(&value);
        let (app, token) = (self.app.clone(), self.token.clone());
        Box::pin(async move {
            let result = AttemptResult::Completed(result?);
            Ok(app.port().answer_attempt(token, result).await?)
        })
    }

    /// The attempt failed; the retry policy decides what follows.
    pub fn fail(&self, error: impl Into<Error>) -> Answering {
        let failure = as_application(error.into().into_failure());
        self.answer(AttemptResult::Failed(failure))
    }

    /// The attempt stopped because it was asked to. If nobody had asked, it counts as failed.
    pub fn cancelled(&self) -> Answering {
        self.answer(AttemptResult::Canceled(None))
    }

    /// Reports that somebody works on it, and how far it is. Fails with
    /// [`CallError::Cancelled`] when the workflow no longer wants it.
    pub fn heartbeat(&self, details: impl Serialize) -> Answering {
        let details = self.payload(&details);
        let (app, token) = (self.app.clone(), self.token.clone());
        Box::pin(async move {
            match app.port().report_attempt(token, details?).await? {
                Some(reason) => Err(CallError::cancelled(why(reason))),
                None => Ok(()),
            }
        })
    }

    fn answer(&self, result: AttemptResult) -> Answering {
        let (app, token) = (self.app.clone(), self.token.clone());
        Box::pin(async move { Ok(app.port().answer_attempt(token, result).await?) })
    }

    fn payload(&self, value: &impl Serialize) -> Result<Payload, CallError> {
        let encoded: Encoded = Payload::encode(value);
        let subject = Subject::Activity(format!("with token {}", self.token).into());
        Content::new(encoded).payload(&subject)
    }
}
