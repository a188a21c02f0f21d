//! A history as Temporal's JSON.
