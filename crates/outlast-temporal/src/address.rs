//! Where a cluster is and how to get in: `temporal://host:port/namespace?tls=true&ca=FILE`.
//!
//! The URL says what differs from place to place; secrets come from the environment, under the
//! names that Temporal's own tools use, so that they stay out of command lines and logs. What
//! the URL says wins.

use std::fmt;

use temporalio_client::Url;

/// The scheme of URLs that name a cluster.
pub const SCHEME: &str = "temporal://";

/// Where a cluster is and how to get in.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    /// `host:port`.
    pub host: String,
    /// The namespace.
    pub namespace: String,
    /// Encryption; `None` is plain text.
    pub tls: Option<Tls>,
    /// Who we are.
    pub api_key: Option<String>,
    /// The task queue of everything that names no other.
    pub queue: Option<String>,
}

/// Files and names for an encrypted connection; what is not given is the system's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Whom to trust: a file of PEM certificates.
    pub ca: Option<String>,
    /// Our certificate: a PEM file.
    pub cert: Option<String>,
    /// Its key: a PEM file.
    pub key: Option<String>,
    /// The name in the server's certificate, if not that of the host.
    pub server_name: Option<String>,
}

/// Why a URL or the environment around it names no cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAddress {
    /// It is not of the shape.
    #[error("{url:?} names no cluster: {why}; expected temporal://HOST:PORT/NAMESPACE")]
    Shape {
        /// The URL without its query.
        url: String,
        /// What is wrong.
        why: String,
    },
    /// It has an option that there is none of.
    #[error(
        "unknown option {name:?}: expected tls, ca, cert, key, server_name, queue, api_key or api_key_env"
    )]
    Option {
        /// Its name.
        name: String,
    },
    /// A certificate without its key, or a key without its certificate.
    #[error("{given} is given without {missing}: both are needed")]
    Half {
        /// What is there.
        given: &'static str,
        /// What is not.
        missing: &'static str,
    },
    /// The named variable is not set.
    #[error("the environment has no {name}: set it to the API key")]
    NoKey {
        /// The variable.
        name: String,
    },
    /// A file cannot be read.
    #[error("{file} cannot be read: {why}")]
    File {
        /// The file.
        file: String,
        /// Why.
        why: String,
    },
}

/// Looks up a variable of the environment.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

impl Address {
    /// Reads a URL and what the environment adds to it.
    ///
    /// # Errors
    /// [`BadAddress`] says what is wrong and what is expected.
    pub fn parse(url: &str, environment: Environment<'_>) -> Result<Self, BadAddress> {
        let shape = |why: &str| BadAddress::Shape {
            url: url.split('?').next().unwrap_or_default().to_owned(),
            why: why.to_owned(),
        };
        let parsed = Url::parse(url).map_err(|error| shape(&error.to_string()))?;
        let host = parsed.host_str().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| shape("it has no host"))?;
        let port = parsed.port().unwrap_or(7233);
        let path = parsed.path().trim_matches('/');
        let namespace = if path.is_empty() { "default" } else { path };
        if namespace.contains('/') {
            return Err(shape("a namespace has no /"));
        }
        let mut options = Options::of(environment);
        for (name, value) in parsed.query_pairs() {
            options.set(&name, value.into_owned(), environment)?;
        }
        Ok(Self {
            host: format!("{host}:{port}"),
            namespace: namespace.to_owned(),
            tls: options.tls()?,
            api_key: options.api_key,
            queue: options.queue,
        })
    }
}

/// The key is nobody's business.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Address")
            .field("host", &self.host)
            .field("namespace", &self.namespace)
            .field("tls", &self.tls)
            .field("api_key", &self.api_key.as_ref().map(|_| ".."))
            .field("queue", &self.queue)
            .finish()
    }
}

struct Options {
    is_tls: Option<bool>,
    files: Tls,
    api_key: Option<String>,
    queue: Option<String>,
}

impl Options {
    fn of(environment: Environment<'_>) -> Self {
        let given = |name: &str| environment(name).filter(|value| !value.is_empty());
        Self {
            is_tls: given("TEMPORAL_TLS").map(|value| is_yes(&value)),
            files: Tls {
                ca: given("TEMPORAL_TLS_SERVER_CA_CERT_PATH"),
                cert: given("TEMPORAL_TLS_CLIENT_CERT_PATH"),
                key: given("TEMPORAL_TLS_CLIENT_KEY_PATH"),
                server_name: given("TEMPORAL_TLS_SERVER_NAME"),
            },
            api_key: given("TEMPORAL_API_KEY"),
            queue: None,
        }
    }

    fn set(
        &mut self,
        name: &str,
        value: String,
        environment: Environment<'_>,
    ) -> Result<(), BadAddress> {
        match name {
            "tls" => self.is_tls = Some(is_yes(&value)),
            "ca" => self.files.ca = Some(value),
            "cert" => self.files.cert = Some(value),
            "key" => self.files.key = Some(value),
            "server_name" => self.files.server_name = Some(value),
            "queue" => self.queue = Some(value),
            "api_key" => self.api_key = Some(value),
            "api_key_env" => {
                let key = environment(&value).filter(|key| !key.is_empty());
                self.api_key = Some(key.ok_or(BadAddress::NoKey { name: value })?);
            }
            other => {
                return Err(BadAddress::Option {
                    name: other.to_owned(),
                });
            }
        }
        Ok(())
    }

    /// A key or a certificate is never sent in plain text unless somebody says so.
    fn tls(&self) -> Result<Option<Tls>, BadAddress> {
        let half = |given, missing| Err(BadAddress::Half { given, missing });
        match (&self.files.cert, &self.files.key) {
            (Some(_), None) => return half("cert", "key"),
            (None, Some(_)) => return half("key", "cert"),
            (Some(_), Some(_)) | (None, None) => {}
        }
        let is_meant = self.files != Tls::default() || self.api_key.is_some();
        let is_tls = self.is_tls.unwrap_or(is_meant);
        Ok(is_tls.then(|| self.files.clone()))
    }
}

fn is_yes(value: &str) -> bool {
    matches!(value, "" | "1" | "true" | "yes" | "on")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bare(_: &str) -> Option<String> {
        None
    }

    #[test]
    fn a_bare_url_has_the_defaults() {
        let address = Address::parse("temporal://localhost", &bare).expect("parses");
        assert_eq!(address.host, "localhost:7233");
        assert_eq!(address.namespace, "default");
        assert_eq!((address.tls, address.api_key), (None, None));
        let full = Address::parse("temporal://10.0.0.1:7301/orders", &bare).expect("parses");
        assert_eq!(
            (full.host.as_str(), full.namespace.as_str()),
            ("10.0.0.1:7301", "orders")
        );
    }

    #[test]
    fn options_of_the_url_win_over_the_environment() {
        let environment = |name: &str| match name {
            "TEMPORAL_API_KEY" => Some("from-environment".to_owned()),
            "MY_KEY" => Some("mine".to_owned()),
            _ => None,
        };
        let parse = |url: &str| Address::parse(url, &environment).expect("parses");
        let plain = parse("temporal://h/ns");
        assert_eq!(plain.api_key.as_deref(), Some("from-environment"));
        assert_eq!(
            plain.tls,
            Some(Tls::default()),
            "a key is never sent in plain text"
        );
        let named = parse("temporal://h/ns?api_key_env=MY_KEY&tls=false");
        assert_eq!(named.api_key.as_deref(), Some("mine"));
        assert_eq!(named.tls, None);
    }

    #[test]
    fn files_turn_encryption_on() {
        let url = "temporal://h/ns?ca=ca.pem&cert=c.pem&key=k.pem&server_name=t.example";
        let tls = Address::parse(url, &bare)
            .expect("parses")
            .tls
            .expect("tls");
        assert_eq!(tls.ca.as_deref(), Some("ca.pem"));
        assert_eq!(tls.server_name.as_deref(), Some("t.example"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = |url: &str| {
            Address::parse(url, &bare)
                .expect_err("is wrong")
                .to_string()
        };
        assert!(wrong("temporal:///ns").contains("it has no host"));
        assert!(wrong("temporal://h/a/b").contains("a namespace has no /"));
        assert!(wrong("temporal://h/ns?tsl=true").contains("\"tsl\""));
        assert!(wrong("temporal://h/ns?cert=c.pem").contains("without key"));
        assert!(wrong("temporal://h/ns?api_key_env=NOPE").contains("NOPE"));
    }

    #[test]
    fn a_key_is_not_shown() {
        let address = Address::parse("temporal://h/ns?api_key=secret", &bare).expect("parses");
        assert!(!format!("{address:?}").contains("secret"));
    }
}
