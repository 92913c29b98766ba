//! The collectors that there are.

macro_rules! plans {
    ($($name:ident),*) => {
        /// One of MMTk's plans, by MMTk's name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Plan { $($name),* }

        impl Plan {
            pub const ALL: &[(&str, Plan)] = &[$((stringify!($name), Plan::$name)),*];

            pub fn name(self) -> &'static str {
                match self { $(Plan::$name => stringify!($name)),* }
            }
        }
    };
}

plans!(
    SemiSpace,
    GenCopy,
    GenImmix,
    Immix,
    StickyImmix,
    MarkSweep,
    MarkCompact,
    Compressor,
    ConcurrentImmix
);
