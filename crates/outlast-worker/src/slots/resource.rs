//! Slots by what the machine can take: some always, more while memory and processor are below
//! their targets, one at a time so that the effect of each can be seen before the next.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use outlast_model::task::Permit;

use super::load::{Load, Probe};
use super::{Ask, SlotSupplier};
use crate::clock;

/// How long a measurement counts.
const FRESH: Duration = Duration::from_millis(100);

/// When more slots are granted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResourceLimits {
    /// Granted whatever the machine does: work never stops.
    pub least: usize,
    /// Never more.
    pub most: usize,
    /// Not above this share of memory in use.
    pub memory: f64,
    /// Not above this share of processor time in use.
    pub processor: f64,
    /// The pause between two slots above the least.
    pub ramp: Duration,
}

/// Grants slots while the machine has room for them.
pub struct ResourceSlots {
    limits: ResourceLimits,
    probe: Arc<dyn Probe>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    measured: Option<(Instant, Load)>,
    granted: Option<Instant>,
}

impl std::fmt::Debug for ResourceSlots {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ResourceSlots").field(&self.limits).finish()
    }
}

impl ResourceSlots {
    /// Within these limits, by these measurements.
    pub fn new(limits: ResourceLimits, probe: Arc<dyn Probe>) -> Self {
        let state = Mutex::new(State::default());
        Self {
            limits,
            probe,
            state,
        }
    }

    /// Its limits.
    pub fn limits(&self) -> &ResourceLimits {
        &self.limits
    }

    fn decide(&self, used: usize, now: Instant) -> Permit {
        let limits = &self.limits;
        if used >= limits.most {
            return Permit::Full;
        }
        if used < limits.least {
            return Permit::Taken;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let pause = state.granted.map_or(Duration::ZERO, |granted| {
            limits.ramp.saturating_sub(now.duration_since(granted))
        });
        if !pause.is_zero() {
            return Permit::Later(pause);
        }
        let load = match state.measured {
            Some((at, load)) if now.duration_since(at) < FRESH => load,
            Some(_) | None => self.probe.measure(),
        };
        state.measured = Some((now, load));
        if load.memory > limits.memory || load.processor > limits.processor {
            return Permit::Later(FRESH);
        }
        state.granted = Some(now);
        Permit::Taken
    }
}

impl SlotSupplier for ResourceSlots {
    fn take(&self, ask: &Ask<'_>) -> Permit {
        self.decide(ask.used, clock::now())
    }

    fn give(&self, _: &Ask<'_>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Meter(Mutex<Load>);

    impl Probe for Meter {
        fn measure(&self) -> Load {
            *self.0.lock().expect("one thread")
        }
    }

    const RAMP: Duration = Duration::from_millis(50);

    fn slots(meter: &Arc<Meter>) -> ResourceSlots {
        let limits = ResourceLimits {
            least: 2,
            most: 5,
            memory: 0.8,
            processor: 0.9,
            ramp: RAMP,
        };
        ResourceSlots::new(limits, meter.clone())
    }

    fn meter(memory: f64, processor: f64) -> Arc<Meter> {
        Arc::new(Meter(Mutex::new(Load { memory, processor })))
    }

    #[test]
    fn the_least_is_granted_on_a_busy_machine_and_no_more() {
        for (memory, processor) in [(0.99, 0.1), (0.1, 0.99)] {
            let slots = slots(&meter(memory, processor));
            let now = clock::now();
            assert_eq!(slots.decide(0, now), Permit::Taken);
            assert_eq!(slots.decide(1, now), Permit::Taken);
            assert_eq!(slots.decide(2, now), Permit::Later(FRESH));
        }
    }

    #[test]
    fn an_idle_machine_gets_one_after_the_other_up_to_the_most() {
        let slots = slots(&meter(0.1, 0.1));
        let now = clock::now();
        assert_eq!(slots.decide(2, now), Permit::Taken);
        assert_eq!(slots.decide(3, now), Permit::Later(RAMP));
        assert_eq!(slots.decide(3, now + RAMP), Permit::Taken);
        assert_eq!(slots.decide(4, now + RAMP * 2), Permit::Taken);
        assert_eq!(slots.decide(5, now + RAMP * 3), Permit::Full);
    }

    #[test]
    fn a_machine_that_becomes_busy_gets_no_more() {
        let meter = meter(0.1, 0.1);
        let slots = slots(&meter);
        let now = clock::now();
        assert_eq!(slots.decide(2, now), Permit::Taken);
        meter.0.lock().expect("one thread").memory = 0.95;
        assert_eq!(
            slots.decide(3, now + RAMP),
            Permit::Taken,
            "measured before"
        );
        assert_eq!(slots.decide(4, now + FRESH * 2), Permit::Later(FRESH));
    }
}
