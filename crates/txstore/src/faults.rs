//! Mistakes that a test plants, to see that they are noticed. Only with the feature `testing`; every
//! other build has no way to plant one, and the questions compile to nothing.

/// A rule of an engine that is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "testing"), allow(unreachable_pub, reason = "exported for tests only"))]
pub enum ProofFault {
    /// The journal does not say who left.
    LeavingNotWritten = 1,
    /// Memory does not forget who left.
    LeavingNotForgotten = 2,
    /// A commit does not look whether somebody left since its verdict.
    OvertakenIgnored = 3,
    /// `PostgreSQL` locks records when they are read, in place of all of them first.
    LockedOnTheWay = 4,
    /// `PostgreSQL` locks nothing before values of the store as a whole are changed.
    StatesNotLocked = 5,
    /// A commit does not look whether the numbers that all programs have in common changed since they
    /// were compared.
    AgreedNotKept = 6,
    /// Files are written and named without their rows.
    FileRowsIgnored = 7,
}

/// The mistake that is planted in a store and its engine, which share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Planted {
    #[cfg(feature = "testing")]
    fault: std::sync::Arc<std::sync::atomic::AtomicU8>,
}

#[cfg(feature = "testing")]
impl Planted {
    pub(crate) fn plant(&self, fault: ProofFault) {
        self.fault.store(fault as u8, std::sync::atomic::Ordering::Relaxed);
    }

    pub(crate) fn has(&self, fault: ProofFault) -> bool {
        self.fault.load(std::sync::atomic::Ordering::Relaxed) == fault as u8
    }
}

#[cfg(not(feature = "testing"))]
impl Planted {
    #[allow(clippy::unused_self, reason = "there is something to ask in tests")]
    pub(crate) const fn has(&self, _fault: ProofFault) -> bool {
        false
    }
}
