//! Takes the numbers of this moment from the parts of an application.

use outlast_model::Status;
use outlast_model::meter::{Counter, Histogram};
use outlast_service::meter::{CAUSES, STORE_ERRORS, ShardMeter};
use outlast_service::service::Service;
use outlast_worker::Worker;
use outlast_worker::event::EvictCause;
use outlast_worker::meter::{ATTEMPT_ENDS, ATTEMPT_KINDS, SliceEnd};
use outlast_worker::state::WorkerState;

use super::table::name;
use super::{Metrics, Value};
use crate::client::App;
use crate::observe::Health;

impl App {
    /// The numbers of this moment. The first call makes the worker measure how long slices take.
    pub fn metrics(&self) -> Metrics {
        let mut metrics = Metrics::default();
        metrics.health(&self.health());
        if let Some(running) = self.running() {
            metrics.worker(&running.worker);
            metrics.state(&running.state());
            if let Some(service) = &running.service {
                metrics.service(service);
            }
        }
        metrics
    }
}

impl Metrics {
    fn health(&mut self, health: &Health) {
        self.number_of(name::live, &[], u64::from(health.live));
        self.number_of(name::ready, &[], u64::from(health.ready));
    }

    fn worker(&mut self, worker: &Worker) {
        let meter = worker.bus().meter();
        meter.take_times();
        for end in SliceEnd::ALL {
            self.number_of(name::slices_total, &[end.name()], meter.slices(end));
        }
        self.spread_of(name::slice_seconds, &meter.slice_time);
        self.count_of(name::cache_hits_total, &[], &meter.cache_hits);
        self.count_of(name::cache_rebuilds_total, &[], &meter.rebuilds);
        for cause in EvictCause::ALL {
            let evictions = meter.evictions(cause);
            self.number_of(name::cache_evictions_total, &[cause.name()], evictions);
        }
        for (kind, kind_name) in ATTEMPT_KINDS.into_iter().enumerate() {
            for (end, end_name) in ATTEMPT_ENDS.into_iter().enumerate() {
                let ended = meter.attempts_ended(kind, end);
                self.number_of(name::attempts_ended_total, &[kind_name, end_name], ended);
            }
        }
    }

    fn state(&mut self, state: &WorkerState) {
        self.level(name::cached_instances, &[], state.cached());
        self.level(name::attempts_running, &[], state.attempts);
        self.level(name::engine_threads, &[], state.threads.len());
        self.level(name::stuck_runs, &[], state.standing.stuck.len());
        self.level(name::zombies, &[], state.standing.zombies().len());
        for slots in &state.slots {
            let labels = [slots.queue.as_str(), slots.kind];
            if let Some(most) = slots.slots {
                self.level(name::slots, &labels, most);
            }
            self.level(name::slots_used, &labels, slots.used);
        }
        for (event, count) in state.standing.counts() {
            self.number_of(name::worker_events_total, &[event], *count);
        }
    }

    fn service(&mut self, service: &Service) {
        for shard in service.shard_meters() {
            self.shard(shard);
        }
        let levels = service.levels();
        self.level(name::workflows_open, &[], levels.open_runs);
        self.level(name::inbox_depth, &[], levels.mail);
        self.level(name::attempts_waiting, &[], levels.waiting_attempts);
        let (groups, commits) = service.written();
        self.number_of(name::commits_total, &[], commits);
        self.number_of(name::commit_groups_total, &[], groups);
        let meter = service.commit_meter();
        self.spread_of(name::commit_group_size, &meter.group_size);
        self.spread_of(name::commit_seconds, &meter.commit_time);
        self.count_of(name::heartbeats_total, &[], &meter.heartbeats);
        for (kind, errors) in STORE_ERRORS.into_iter().zip(meter.errors()) {
            self.number_of(name::store_errors_total, &[kind], errors);
        }
    }

    fn shard(&mut self, shard: &ShardMeter) {
        for (workflow_type, runs) in shard.types() {
            self.count_of(
                name::workflows_started_total,
                &[workflow_type],
                &runs.started,
            );
            for status in Status::ALL.into_iter().filter(|status| !status.is_open()) {
                let labels = [workflow_type, status.name()];
                self.number_of(name::workflows_closed_total, &labels, runs.closed(status));
            }
        }
        for (cause, failures) in CAUSES.into_iter().zip(shard.task_failures()) {
            self.number_of(name::task_failures_total, &[cause.name()], failures);
        }
        for (kind, attempts) in ATTEMPT_KINDS.into_iter().zip(&shard.attempts) {
            self.count_of(name::attempts_started_total, &[kind], &attempts.started);
            self.count_of(name::retries_total, &[kind], &attempts.retries);
        }
        self.spread_of(name::schedule_to_start_seconds, &shard.schedule_to_start);
    }

    fn number_of(&mut self, name: &'static str, labels: &[&str], number: u64) {
        self.add(name, labels, Value::Number(number));
    }

    fn count_of(&mut self, name: &'static str, labels: &[&str], counter: &Counter) {
        self.number_of(name, labels, counter.get());
    }

    fn level(&mut self, name: &'static str, labels: &[&str], level: usize) {
        self.number_of(name, labels, level as u64);
    }

    fn spread_of(&mut self, name: &'static str, histogram: &Histogram) {
        self.add(name, &[], Value::Spread(histogram.read()));
    }
}
