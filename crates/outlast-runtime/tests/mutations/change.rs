//! The changes, each with what must come of it.

/// What a replay makes of changed code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// It stops: code and history differ in kind, order, number, type or id.
    Found,
    /// It goes on, and tells.
    Warned,
    /// It goes on: open runs may meet this change.
    Fine,
}

macro_rules! changes {
    ($($expect:ident: [$($change:ident,)*])*) => {
        /// One change to the code of the workflow.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Change {
            /// As it was when the history was written.
            Unchanged,
            $($($change,)*)*
        }

        impl Change {
            /// All changes, and what must come of each.
            pub(crate) const ALL: &[(Self, Expect)] = &[
                $($((Self::$change, Expect::$expect),)*)*
            ];
        }
    };
}

changes! {
    Found: [
        RenameActivity,
        RemoveActivity,
        AddActivityFirst,
        DuplicateActivity,
        SwapActivityAndTimer,
        ActivityBecomesTimer,
        ActivityBecomesStep,
        ActivityBecomesChild,
        KeepActivity,
        AddActivityBetween,
        AddActivityLast,
        RemoveTimer,
        AddTimer,
        TimerBecomesActivity,
        KeepTimer,
        RenameStep,
        RemoveStep,
        AddStepFirst,
        SwapSteps,
        StepBecomesActivity,
        AwaitStepFirst,
        RenameSignal,
        ReceiveTwice,
        RemoveSignalHandler,
        RenameSignalHandler,
        HandlerDoesMore,
        HandlerDoesLess,
        HandlerRenamesActivity,
        RemoveUpdateHandler,
        RenameUpdateHandler,
        UpdateDoesMore,
        UpdateDoesLess,
        RenameChild,
        RenameChildId,
        RemoveChild,
        AddChild,
        ChildBecomesActivity,
        KeepChild,
        SwapChildAndMessage,
        RenameMessage,
        RetargetMessage,
        RemoveMessage,
        RetargetRequest,
        RemoveRequest,
        SwapMessages,
        RemovePatch,
        RenamePatch,
        SwapSelect,
        RandomSelect,
        JoinBecomesRow,
        RowBecomesJoin,
        SwapJoin,
        CancelInOtherOrder,
        RemoveBranch,
        BranchBecomesInline,
        RenameInBranch,
        RemovePromise,
        RenamePromise,
        RemoveCondition,
        InvertCondition,
        RenameLast,
        EndEarly,
        CompleteInstead,
        FailInstead,
        CancelInstead,
        ContinueAsOther,
    ]
    Warned: [
        TuneActivityTimeout,
        TuneActivityRetry,
        TuneActivityQueue,
        TuneActivityCancel,
        TuneActivityInput,
        TuneTimer,
        UpdateTunesTimer,
        UpdateAnswersOther,
        UpdateFails,
        TuneChildTimeout,
        TuneChildClose,
        TuneChildCancel,
        TuneChildInput,
        TuneMessage,
        TuneRequest,
        TuneContinue,
    ]
    Fine: [
        AddPatch,
        DeprecateAnotherPatch,
        AddDetachedStep,
    ]
}
