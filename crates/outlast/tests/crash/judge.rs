//! What must hold whatever crashed: nothing acknowledged is lost, nothing is there that nobody
//! asked for, nothing is recorded twice, and effects are no more than the attempts allow.

use std::collections::{BTreeMap, BTreeSet};

use outlast::model::event::UpdateEvent;
use outlast::model::task::promise_request;
use outlast::model::{Event, EventKind, PromiseId, RunId, grammar};

use crate::client::Ack;
use crate::life::{Recorded, Story};
use crate::script::{Scenario, replay_as};

/// Everything that is wrong with the story, one line each.
pub(crate) fn judge(scenario: &Scenario, story: &Story, clean: Option<&Story>) -> Vec<String> {
    let mut complaints = Vec::new();
    if story.is_stuck {
        complaints.push("stuck: the client waits for an answer".into());
    }
    complaints.extend(story.damage.iter().map(|line| format!("lost: {line}")));
    for ack in &story.acks {
        complaints.extend(lost(story, ack));
    }
    for run in &story.runs {
        complaints.extend(unsound(run));
        complaints.extend(overdone(story, run));
    }
    if story.posts > 0 {
        complaints.push(format!("lost: {} posts that nobody took", story.posts));
    }
    complaints.extend(strangers(story));
    complaints.extend(updates_twice(story));
    complaints.extend(begun_twice(story));
    complaints.extend(done_after_success(story));
    complaints.extend(steps_overdone(scenario, story));
    if let Some(clean) = clean {
        complaints.extend(different(scenario, story, clean));
    }
    complaints
}

/// What is wrong with a disk alone, before anything goes on from it.
pub(crate) fn of_disk(story: &Story) -> Vec<String> {
    let mut complaints: Vec<String> = Vec::new();
    complaints.extend(story.damage.iter().map(|line| format!("damaged: {line}")));
    for ack in &story.acks {
        complaints.extend(lost(story, ack));
    }
    for run in &story.runs {
        let id = &run.row.workflow_id;
        if let Some(damage) = &run.damage {
            complaints.push(format!("damaged: {id} cannot be read: {damage}"));
        } else if let Err(violation) = grammar::check(&run.history) {
            complaints.push(format!("duplicated: {id}: {violation}"));
        }
        complaints.extend(signals_twice(run));
    }
    complaints.extend(strangers(story));
    complaints.extend(updates_twice(story));
    complaints
}

/// What was acknowledged must be there, for good.
fn lost(story: &Story, ack: &Ack) -> Option<String> {
    let runs = |id: &String| {
        let id = id.clone();
        story
            .runs
            .iter()
            .filter(move |run| run.row.workflow_id.as_str() == id)
    };
    let has = |id: &String, is_it: &dyn Fn(&EventKind) -> bool| {
        runs(id).any(|run| run.history.iter().any(|event| is_it(&event.kind)))
    };
    let is_kept = match ack {
        Ack::Started { id, run_id } => runs(id).any(|run| run.row.run_id == *run_id),
        Ack::Signaled { id, request } => has(id, &|kind| {
            matches!(kind, EventKind::Signaled { request_id: Some(found), .. }
                if found.as_str() == request)
        }),
        Ack::Cancelled { id } => has(id, &|kind| {
            matches!(kind, EventKind::CancelRequested { .. })
        }),
        Ack::Terminated { id } => has(id, &|kind| matches!(kind, EventKind::Terminated { .. })),
        Ack::Ended { id, .. } => runs(id).any(|run| !run.is_open()),
        Ack::Accepted { id, update } => has(id, &|kind| accepts(kind, update)),
        Ack::Updated {
            id,
            update,
            is_rejected,
            ..
        } => has(id, &|kind| accepts(kind, update)) != *is_rejected,
        Ack::Settled { id, promise } => has(id, &|kind| {
            matches!(kind, EventKind::Signaled { request_id: Some(found), .. }
                if *found == promise_request(&PromiseId::new(promise.as_str())))
        }),
        Ack::Completed { id, value } => has(id, &|kind| {
            matches!(kind, EventKind::ActivityCompleted { result, .. }
                if result.decode::<u64>().ok() == Some(*value))
        }),
        Ack::CountedLate => return Some("duplicated: a late answer counted".into()),
        Ack::Answered { .. } | Ack::Refused { .. } | Ack::Seen => true,
    };
    (!is_kept).then(|| format!("lost: {ack:?}"))
}

fn accepts(kind: &EventKind, update: &str) -> bool {
    matches!(kind, EventKind::Update(UpdateEvent::Accepted(accepted))
        if accepted.id.as_str() == update)
}

/// An update runs once in a whole chain, and its answer never changes.
fn updates_twice(story: &Story) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut counts: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    for run in &story.runs {
        for event in &run.history {
            if let EventKind::Update(UpdateEvent::Accepted(accepted)) = &event.kind {
                let key = (run.row.workflow_id.as_str(), accepted.id.as_str());
                *counts.entry(key).or_default() += 1;
            }
        }
    }
    for ((id, update), count) in counts {
        if count > 1 {
            complaints.push(format!(
                "duplicated: update {update} of {id} ran {count} times"
            ));
        }
    }
    let mut answers: BTreeMap<(&String, &String), &String> = BTreeMap::new();
    for ack in &story.acks {
        if let Ack::Updated {
            id, update, text, ..
        } = ack
            && let Some(first) = answers.insert((id, update), text)
            && first != text
        {
            complaints.push(format!(
                "different: update {update} said {first}, then {text}"
            ));
        }
    }
    complaints
}

/// A history obeys the grammar, and the code replays it.
fn unsound(run: &Recorded) -> Vec<String> {
    let id = &run.row.workflow_id;
    let mut complaints = Vec::new();
    if let Some(damage) = &run.damage {
        complaints.push(format!("lost: {id} cannot be read: {damage}"));
    }
    if let Err(violation) = grammar::check(&run.history) {
        complaints.push(format!("duplicated: {id}: {violation}"));
        return complaints;
    }
    if run.is_open() {
        complaints.push(format!("stuck: {id} is open"));
    }
    complaints.extend(signals_twice(run));
    let has_turn = |event: &Event| matches!(event.kind, EventKind::TaskCompleted);
    if run.history.iter().any(has_turn)
        && let Err(error) = replay_as(run.row.workflow_type.as_str(), &run.history)
    {
        complaints.push(format!("{id} does not replay: {error}"));
    }
    complaints
}

fn signals_twice(run: &Recorded) -> Vec<String> {
    let (mut requests, mut complaints) = (BTreeSet::new(), Vec::new());
    for event in &run.history {
        if let EventKind::Signaled {
            request_id: Some(request),
            ..
        } = &event.kind
            && !requests.insert(request)
        {
            let id = &run.row.workflow_id;
            complaints.push(format!("duplicated: {id} has signal {request} twice"));
        }
    }
    complaints
}

/// What is known of one activity.
#[derive(Default)]
struct Activity {
    /// Attempts it may have; 0: without end.
    most: u32,
    /// The attempt that gave its outcome.
    last: u32,
    is_completed: bool,
}

fn activities(run: &Recorded) -> BTreeMap<String, Activity> {
    let mut all: BTreeMap<String, Activity> = BTreeMap::new();
    let key = |seq: u32| format!("{}/{seq}", run.row.run_id);
    for event in &run.history {
        if let EventKind::ActivityScheduled(scheduled) = &event.kind {
            let most = scheduled.options.retry.max_attempts;
            let activity = Activity {
                most,
                ..Activity::default()
            };
            all.insert(key(scheduled.seq.0), activity);
        }
        if let EventKind::ActivityStarted { seq, attempt, .. } = &event.kind
            && let Some(activity) = all.get_mut(&key(seq.0))
        {
            activity.last = attempt.0;
        }
        if let EventKind::ActivityCompleted { seq, .. } = &event.kind
            && let Some(activity) = all.get_mut(&key(seq.0))
        {
            activity.is_completed = true;
        }
    }
    all
}

/// Effects are no more than the attempts allow; without a bound, a crash may cost one more. A store
/// that fails or has no room costs none: the attempts go on.
fn overdone(story: &Story, run: &Recorded) -> Vec<String> {
    let crashes = (story.deaths + story.stops) as usize;
    let mut complaints = Vec::new();
    for (key, activity) in activities(run) {
        let done = story
            .effects
            .iter()
            .filter(|effect| effect.key == key)
            .count();
        let most = match activity.most {
            0 => activity.last.max(1) as usize + crashes,
            most => (most + story.stops) as usize,
        };
        if done > most {
            complaints.push(format!(
                "duplicated: {key} was done {done} times, not {most}"
            ));
        }
        if activity.is_completed && done == 0 {
            complaints.push(format!("phantom: {key} has a result and was never done"));
        }
    }
    complaints
}

/// Runs that nobody asked for, effects that belong to no activity.
fn strangers(story: &Story) -> Vec<String> {
    let mut complaints = Vec::new();
    let known: BTreeSet<String> = story
        .runs
        .iter()
        .flat_map(|run| activities(run).into_keys())
        .collect();
    for effect in &story.effects {
        let is_activity = effect.key.contains('/');
        if is_activity && !known.contains(&effect.key) {
            complaints.push(format!("phantom: {effect:?} belongs to no activity"));
        }
    }
    let mut requests = BTreeSet::new();
    let parents: BTreeSet<RunId> = story.runs.iter().map(|run| run.row.run_id).collect();
    for run in &story.runs {
        let is_ours = run.row.workflow_id.as_str().starts_with(&story.case);
        if !is_ours && !parent_of(run).is_some_and(|parent| parents.contains(&parent)) {
            complaints.push(format!(
                "phantom: {} was never started",
                run.row.workflow_id
            ));
        }
        let cause = run.history.first().map(cause_of);
        let id = run.row.workflow_id.as_str().to_owned();
        if !requests.insert((id, cause.clone())) {
            complaints.push(format!("duplicated: two runs for {cause:?}"));
        }
    }
    complaints
}

fn parent_of(run: &Recorded) -> Option<RunId> {
    if let EventKind::Started(started) = &run.history.first()?.kind {
        started.parent.as_ref().map(|parent| parent.run_id)
    } else {
        None
    }
}

/// Why a run was begun: by a request, by its parent, by the run before it.
fn cause_of(first: &Event) -> String {
    if let EventKind::Started(started) = &first.kind {
        let parent = started.parent.as_ref().map(|p| (p.run_id, p.seq));
        format!(
            "{:?} {parent:?} {:?}",
            started.request_id, started.continued_from
        )
    } else {
        String::new()
    }
}

/// One attempt is begun once in a process, whatever its store does.
fn begun_twice(story: &Story) -> Vec<String> {
    let mut counts: BTreeMap<_, u32> = BTreeMap::new();
    for effect in story.effects.iter().filter(|effect| effect.attempt > 0) {
        *counts.entry(effect.clone()).or_default() += 1;
    }
    let twice = counts.into_iter().filter(|(_, count)| *count > 1);
    twice
        .map(|(effect, count)| format!("duplicated: {effect:?} was begun {count} times"))
        .collect()
}

/// Whose outcome was on disk when a process died must not be done again.
fn done_after_success(story: &Story) -> Vec<String> {
    let mut complaints = Vec::new();
    for (life, remains) in story.remains.iter().enumerate() {
        for run in remains {
            for (key, activity) in activities(run) {
                let again = |e: &&crate::world::Effect| e.key == key && e.life > life;
                if activity.last > 0 && story.effects.iter().any(|effect| again(&effect)) {
                    complaints.push(format!("duplicated: {key} was done after its outcome"));
                }
            }
        }
    }
    complaints
}

fn steps_overdone(scenario: &Scenario, story: &Story) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for effect in story
        .effects
        .iter()
        .filter(|effect| !effect.key.contains('/'))
    {
        *counts.entry(&effect.key).or_default() += 1;
    }
    let crashes = (story.deaths + story.stops) as usize;
    let most = scenario.most.min(2 + crashes);
    let over = counts.into_iter().filter(|(_, count)| *count > most);
    over.map(|(name, count)| format!("duplicated: step {name} was done {count} times, not {most}"))
        .collect()
}

/// A crash changes nothing that a client sees.
fn different(scenario: &Scenario, story: &Story, clean: &Story) -> Vec<String> {
    let texts = |story: &Story| -> Vec<String> {
        story
            .acks
            .iter()
            .filter_map(|ack| text(ack, &story.case))
            .collect()
    };
    let (seen, usual) = (texts(story), texts(clean));
    let is_reordered = scenario.may_reorder && story.failures > 0;
    // No attempt is lost with a process that lives.
    let has_died = story.deaths + story.stops > 0;
    let is_allowed = |(seen, usual): (&String, &String)| {
        seen == usual
            || (has_died && scenario.or_else.iter().any(|other| seen == other))
            || (is_reordered && words(seen) == words(usual))
    };
    if seen.len() == usual.len() && seen.iter().zip(&usual).all(is_allowed) {
        return Vec::new();
    }
    vec![format!("different: {seen:?} instead of {usual:?}")]
}

/// The words of a list, whatever their order.
fn words(text: &str) -> Vec<&str> {
    let mut words: Vec<&str> = text.split(['[', ']', ',', ' ']).collect();
    words.sort_unstable();
    words
}

fn text(ack: &Ack, case: &str) -> Option<String> {
    match ack {
        Ack::Ended { text, .. } | Ack::Updated { text, .. } | Ack::Answered { text } => {
            Some(text.replace(case, ""))
        }
        Ack::Refused { code } => Some((*code).to_owned()),
        Ack::Started { .. }
        | Ack::Signaled { .. }
        | Ack::Cancelled { .. }
        | Ack::Terminated { .. }
        | Ack::Accepted { .. }
        | Ack::Completed { .. }
        | Ack::CountedLate
        | Ack::Settled { .. }
        | Ack::Seen => None,
    }
}
