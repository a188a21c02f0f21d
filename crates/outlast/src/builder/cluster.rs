//! An application on a Temporal cluster: the same registrations, served by the same worker; the
//! cluster is reached through the owner of handles, and its service is the client's port.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use outlast_model::task::SlotKind;
use outlast_model::{QueueName, RunId};
use outlast_service::service::random;
use outlast_temporal::{Address, Client, Cluster, Patience, Queues as Connector};
use outlast_worker::handle::QueueOptions;
use outlast_worker::owner::{Owner, OwnerSettings};
use outlast_worker::polled::{AttemptHost, PolledPort};
use outlast_worker::queue::Queues;
use outlast_worker::{Bus, QueueSpec, Settings, Worker, WorkerEvent};
use tokio::runtime::Handle as Runtime;

use super::{Builder, DEFAULT_QUEUE, default_shards, specs};
use crate::client::App;
use crate::embedded::{Repair, Running};
use crate::error::{Error, Result};

impl<L: 'static> Builder<L> {
    /// Connects, and serves every queue that has code: an application without workflows and
    /// activities is a client.
    pub(super) async fn join(self, url: &str, runtime: Runtime) -> Result<App> {
        let address = Address::parse(url, &|name| std::env::var(name).ok())
            .map_err(|error| Error::msg(format!("OL-4005: {error}")))?;
        self.tell_warnings();
        let mut settings = self.settings;
        self.config.apply(&mut settings);
        let specs = specs(self.queues, &self.everywhere, &settings, &self.config)?;
        specs
            .iter()
            .try_for_each(|(name, spec)| check(name, spec))?;
        let cluster = reach(&address, settings.connect_timeout, &self.bus).await?;
        let queue = QueueName::new(address.queue.as_deref().unwrap_or(DEFAULT_QUEUE));
        let clock = self.clock;
        let ids = Arc::new(move || RunId::v7(clock.now().0 / 1_000, random()));
        let client = Arc::new(Client::new(cluster.clone()));
        let serving = Serving {
            runtime,
            lanes: self.shards.unwrap_or_else(default_shards),
            settings,
            bus: self.bus,
        };
        let (mut workers, repair) = serving.all(cluster, specs, &queue).await?;
        let Some(worker) = workers.pop() else {
            return Ok(App::new(client, ids, queue, None));
        };
        let running = Running::new(None, worker).with_others(workers, repair);
        let running = Arc::new(running);
        running.stop_when_unfit();
        Ok(App::new(client, ids, queue, Some(running)))
    }
}

/// What the workers of an application share.
struct Serving {
    runtime: Runtime,
    lanes: usize,
    settings: Settings,
    bus: Bus,
}

impl Serving {
    /// One worker for each queue that has code. What names no queue lives on `default`.
    async fn all(
        &self,
        cluster: Cluster,
        specs: BTreeMap<QueueName, QueueSpec>,
        default: &QueueName,
    ) -> Result<(Vec<Arc<Worker>>, Repair)> {
        let owner = Owner::new(
            Arc::new(Connector::new(cluster).map_err(Error::msg)?),
            self.runtime.clone(),
            OwnerSettings::default(),
            Arc::new(|| u64::try_from(random() & u128::from(u64::MAX)).unwrap_or(0)),
            self.bus.clone(),
        );
        let (mut workers, mut ports) = (Vec::new(), BTreeMap::new());
        for (name, spec) in specs {
            let is_default = name.as_str() == DEFAULT_QUEUE;
            let name = if is_default { default.clone() } else { name };
            let code = &spec.registry;
            if !(code.workflows.is_empty() && code.activities.is_empty()) {
                let (worker, port) = self.one(&owner, name.clone(), spec).await?;
                workers.push(worker);
                ports.insert(name, port);
            }
        }
        Ok((workers, repair(owner, ports)))
    }

    async fn one(
        &self,
        owner: &Owner,
        queue: QueueName,
        spec: QueueSpec,
    ) -> Result<(Arc<Worker>, Arc<PolledPort>)> {
        let options = options(queue.clone(), &spec.settings);
        let runtime = self.runtime.clone();
        let port = PolledPort::register(owner.clone(), options, self.lanes, runtime).await;
        let port = Arc::new(port.map_err(Error::msg)?);
        let queues = Queues::new(BTreeMap::from([(queue, spec)]), &self.bus);
        let (settings, runtime) = (self.settings.clone(), self.runtime.clone());
        let worker = Worker::new(queues, settings, runtime, self.bus.clone());
        worker.start(port.clone());
        let host: Arc<dyn AttemptHost> = worker.clone();
        port.start(Arc::downgrade(&host) as Weak<dyn AttemptHost>);
        Ok((worker, port))
    }
}

/// Pollers begin anew, and the handle they ask is replaced. What they had goes on.
fn repair(owner: Owner, ports: BTreeMap<QueueName, Arc<PolledPort>>) -> Repair {
    Box::new(move |queue| {
        if let Some(port) = ports.get(queue) {
            port.restart_pollers();
        }
        owner.recycle(queue)
    })
}

/// Connects. Every try that failed is an event, and so is its end.
async fn reach(address: &Address, limit: Duration, bus: &Bus) -> Result<Cluster> {
    let begun = tokio::time::Instant::now();
    let backend = format!("the cluster at {}", address.host);
    let (teller, name) = (bus.clone(), backend.clone());
    let patience = Patience {
        limit,
        report: Arc::new(move |error, retry_in| {
            teller.emit(WorkerEvent::BackendUnavailable {
                backend: name.clone(),
                error: error.to_owned(),
                retry_in,
            });
        }),
    };
    let cluster = Cluster::connect(address, &patience).await;
    let cluster = cluster.map_err(Error::msg)?;
    if bus.standing().away.contains_key(&backend) {
        let away = begun.elapsed();
        bus.emit(WorkerEvent::BackendBack { backend, away });
    }
    Ok(cluster)
}

/// The SDK core counts slices before they come here.
fn check(queue: &QueueName, spec: &QueueSpec) -> Result<()> {
    if spec.suppliers.contains_key(&SlotKind::Workflow) {
        return Err(Error::msg(format!(
            "OL-4004: queue {queue} has a supplier of workflow slots, which a cluster cannot ask: \
             set worker.workflow_slots instead; suppliers of other slots are asked"
        )));
    }
    Ok(())
}

fn options(queue: QueueName, settings: &Settings) -> QueueOptions {
    QueueOptions {
        workflow_pollers: settings.workflow_pollers,
        activity_pollers: settings.activity_pollers,
        sticky_timeout: settings.sticky_timeout,
        one_completion_at_a_time: settings.one_completion_at_a_time,
        cached_runs: settings.cached_runs,
        slice_slots: settings.workflow_slots,
        activity_slots: settings.activity_slots,
        step_slots: settings.step_slots,
        longest_heartbeat: settings.heartbeat_interval_max,
        default_heartbeat: settings.heartbeat_interval,
        ..QueueOptions::new(queue)
    }
}
