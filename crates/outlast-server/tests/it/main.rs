//! The binary from outside: what it prints, how it ends, what it leaves behind.

mod chaos;
mod config;
mod demo;
mod inspect;
mod readme;
mod stop;
mod support;
