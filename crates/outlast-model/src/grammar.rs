//! The grammar of a history: what may follow what.
