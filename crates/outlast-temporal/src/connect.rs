//! Getting in: one connection per application, for its client and all its queues.
//!
//! A cluster that is down is tried again with growing pauses, with a line for each try, up to a
//! limit. A wrong key, a wrong namespace and too old a server do not heal by themselves: they are
//! refused at once, before anything runs.

use std::sync::Arc;
use std::time::Duration;

use outlast_model::Refusal;
use outlast_worker::handle::BoxFuture;
use temporalio_client::errors::ClientConnectError;
use temporalio_client::grpc::WorkflowService;
use temporalio_client::tonic::{Code, Request, Status};
use temporalio_client::{ClientTlsOptions, Connection, ConnectionOptions, TlsOptions, Url};

use crate::address::{Address, BadAddress, Tls};
use crate::proto::service::{DescribeNamespaceRequest, GetSystemInfoRequest};
use crate::refusal;

/// The oldest server that has everything: updates with a start came with it.
pub const MINIMUM: &str = "1.25.0";
/// The first pause between two tries.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// The longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How long one try may take.
const ONE_TRY: Duration = Duration::from_secs(10);

/// Hears why a try failed, and when the next one comes.
pub type Report = Arc<dyn Fn(&str, Duration) + Send + Sync>;

/// How patient to be with a cluster that is down, and whom to tell.
#[derive(Clone)]
pub struct Patience {
    /// Tries are made until this much time has passed.
    pub limit: Duration,
    /// Hears of every try that failed, but for the last.
    pub report: Report,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            limit: Duration::from_secs(60),
            report: Arc::new(|_, _| ()),
        }
    }
}

impl std::fmt::Debug for Patience {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Patience")
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

/// A cluster we are connected to. Cheap to clone.
#[derive(Clone)]
pub struct Cluster {
    pub(crate) connection: Connection,
    pub(crate) namespace: Arc<str>,
    pub(crate) identity: Arc<str>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster")
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConnectError {
    /// The address is wrong.
    #[error("OL-4005: {0}")]
    Address(#[from] BadAddress),
    /// The cluster does not answer.
    #[error(
        "OL-2003: no cluster answers at {host}, tried for {} s: {reason}; is it running?",
        tried.as_secs()
    )]
    Down {
        /// `host:port`.
        host: String,
        /// How long it was tried.
        tried: Duration,
        /// What the last try met.
        reason: String,
    },
    /// The cluster answers, and refuses.
    #[error("{code}: {0}", code = .0.code())]
    Refused(Refusal),
}

impl Cluster {
    /// Connects, checks that the server is new enough, and that the namespace is there and open
    /// to us.
    ///
    /// # Errors
    /// [`ConnectError`] says what to change.
    pub fn connect<'a>(
        address: &'a Address,
        patience: &'a Patience,
    ) -> BoxFuture<'a, Result<Self, ConnectError>> {
        Box::pin(Self::connected(address, patience))
    }

    async fn connected(address: &Address, patience: &Patience) -> Result<Self, ConnectError> {
        let identity = format!("outlast-{}@{}", std::process::id(), address.host);
        let options = options(address, &identity)?;
        let connection = until_there(&address.host, &options, patience).await?;
        let cluster = Self {
            connection,
            namespace: address.namespace.as_str().into(),
            identity: identity.into(),
        };
        cluster.check().await.map_err(ConnectError::Refused)?;
        Ok(cluster)
    }

    async fn check(&self) -> Result<(), Refusal> {
        let mut service = self.connection.clone();
        let system = service.get_system_info(Request::new(GetSystemInfoRequest::default()));
        let system = system.await.map_err(|status| self.refusal(&status))?;
        let version = system.into_inner().server_version;
        if is_older(&version, MINIMUM) {
            return Err(Refusal::TooOld {
                reason: format!("its server is {version}"),
                minimum: MINIMUM,
            });
        }
        let namespace = DescribeNamespaceRequest {
            namespace: self.namespace.to_string(),
            ..DescribeNamespaceRequest::default()
        };
        let described = service.describe_namespace(Request::new(namespace)).await;
        described.map_err(|status| self.refusal(&status))?;
        Ok(())
    }

    pub(crate) fn refusal(&self, status: &Status) -> Refusal {
        refusal::general(status, &self.namespace)
    }
}

async fn until_there(
    host: &str,
    options: &ConnectionOptions,
    patience: &Patience,
) -> Result<Connection, ConnectError> {
    let begun = tokio::time::Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        let reason = match Connection::connect(options.clone()).await {
            Ok(connection) => return Ok(connection),
            Err(error) => reason(error, host)?,
        };
        let tried = begun.elapsed();
        if tried + pause > patience.limit {
            let host = host.to_owned();
            return Err(ConnectError::Down {
                host,
                tried,
                reason,
            });
        }
        (patience.report)(&reason, pause);
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Why a try failed that may succeed later; an error if it cannot.
fn reason(error: ClientConnectError, host: &str) -> Result<String, ConnectError> {
    match error {
        ClientConnectError::SystemInfoCallError(status) => match status.code() {
            Code::Unavailable | Code::DeadlineExceeded | Code::ResourceExhausted => {
                Ok(status.message().to_owned())
            }
            Code::Unimplemented => Err(ConnectError::Refused(Refusal::TooOld {
                reason: format!("it does not know GetSystemInfo ({})", status.message()),
                minimum: MINIMUM,
            })),
            _ => Err(ConnectError::Refused(refusal::general(&status, ""))),
        },
        error @ (ClientConnectError::InvalidUri(_)
        | ClientConnectError::InvalidHeaders(_)
        | ClientConnectError::InvalidConfig(_)) => Err(BadAddress::Shape {
            url: host.to_owned(),
            why: error.to_string(),
        }
        .into()),
        other => Ok(innermost(&other)),
    }
}

/// The last link of a chain of errors: "connection refused" rather than "transport error".
fn innermost(error: &dyn std::error::Error) -> String {
    let mut link = error;
    while let Some(source) = link.source() {
        link = source;
    }
    link.to_string()
}

fn options(address: &Address, identity: &str) -> Result<ConnectionOptions, BadAddress> {
    let scheme = if address.tls.is_some() {
        "https"
    } else {
        "http"
    };
    let url = format!("{scheme}://{}", address.host);
    let target = Url::parse(&url).map_err(|error| BadAddress::Shape {
        url,
        why: error.to_string(),
    })?;
    let tls = address.tls.as_ref().map(tls).transpose()?;
    Ok(ConnectionOptions::new(target)
        .identity(identity.to_owned())
        .maybe_tls_options(tls)
        .maybe_api_key(address.api_key.clone())
        .connect_timeout(ONE_TRY)
        .build())
}

fn tls(tls: &Tls) -> Result<TlsOptions, BadAddress> {
    let client = match (&tls.cert, &tls.key) {
        (Some(cert), Some(key)) => Some(
            ClientTlsOptions::builder()
                .client_cert(read(cert)?)
                .client_private_key(read(key)?)
                .build(),
        ),
        (Some(_) | None, None) | (None, Some(_)) => None,
    };
    let ca = tls.ca.as_deref().map(read).transpose()?;
    Ok(TlsOptions::builder()
        .maybe_server_root_ca_cert(ca)
        .maybe_domain(tls.server_name.clone())
        .maybe_client_tls_options(client)
        .build())
}

fn read(file: &str) -> Result<Vec<u8>, BadAddress> {
    std::fs::read(file).map_err(|error| BadAddress::File {
        file: file.to_owned(),
        why: error.to_string(),
    })
}

/// Whether a version is below another; one that is not of numbers is not.
fn is_older(version: &str, than: &str) -> bool {
    match (numbers(version), numbers(than)) {
        (Some(version), Some(than)) => version < than,
        (None, _) | (_, None) => false,
    }
}

fn numbers(version: &str) -> Option<Vec<u32>> {
    let numbers = version.split(['-', '+']).next()?;
    numbers.split('.').map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        assert!(is_older("1.9.2", MINIMUM));
        assert!(is_older("1.24.3", MINIMUM));
        assert!(!is_older("1.25.0", MINIMUM));
        assert!(!is_older("1.30.0-cloud", MINIMUM));
        assert!(
            !is_older("main", MINIMUM),
            "a build of one's own is trusted"
        );
    }
}
