//! The first 128 bytes of a schedule: `TARESCHD`, then little-endian numbers of 64 bits (the
//! version, the death by its place in [`Death::ALL`], and the counts of [`Header`] in their
//! order), then zeros. The words of the events follow, see `event.rs`.

use serde::Serialize;

/// Which of the three deaths an object of the schedule dies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Death {
    /// The program's own free.
    #[default]
    Free,
    /// When it was found unreachable, or freed before.
    Unreachable,
    /// Right after its last use; at once when it was never used.
    LastUse,
}

impl Death {
    /// All of them, each at the place of its number in the format.
    pub const ALL: [Death; 3] = [Death::Free, Death::Unreachable, Death::LastUse];

    /// As it is written on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Death::Free => "free",
            Death::Unreachable => "unreachable",
            Death::LastUse => "last-use",
        }
    }
}

/// What a schedule holds, all of it counted from its events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Header {
    #[serde(skip)]
    pub death: Death,
    /// Words, extensions included.
    pub words: u64,
    pub slots: u64,
    pub threads: u64,
    /// Objects; one that is resized stays the same.
    pub objects: u64,
    pub resizes: u64,
    pub frees: u64,
    /// First and last uses.
    pub touches: u64,
    pub stores: u64,
    /// Bytes asked for, over all objects; a resize adds what it adds.
    pub allocated_bytes: u64,
    /// The most bytes of objects that live at one moment, as asked for.
    pub peak_bytes: u64,
    /// The most objects that live at one moment.
    pub peak_objects: u64,
    /// Regions that have objects at one moment.
    pub regions: u64,
}

impl Header {
    pub(crate) const BYTES: usize = 128;
    const MAGIC: [u8; 8] = *b"TARESCHD";
    const VERSION: u64 = 1;

    pub fn empty(death: Death) -> Header {
        Header {
            death,
            threads: 1,
            ..Header::default()
        }
    }

    /// How many events there are to replay, [`crate::Event::Thread`] not among them.
    pub fn events(&self) -> u64 {
        self.objects + self.resizes + self.frees + self.touches + self.stores
    }

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let numbers = [
            Self::VERSION,
            self.death as u64,
            self.words,
            self.slots,
            self.threads,
            self.objects,
            self.resizes,
            self.frees,
            self.touches,
            self.stores,
            self.allocated_bytes,
            self.peak_bytes,
            self.peak_objects,
            self.regions,
        ];
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&Self::MAGIC);
        for (place, number) in bytes[8..].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// None where the bytes are not those of a schedule; an error names its version where that is
    /// another.
    pub(crate) fn from_bytes(bytes: &[u8; Self::BYTES]) -> Option<Result<Header, u64>> {
        let numbers = bytes.strip_prefix(&Self::MAGIC)?;
        let mut numbers = numbers.chunks_exact(8).map(|chunk| {
            let mut number = [0; 8];
            number.copy_from_slice(chunk);
            u64::from_le_bytes(number)
        });
        let mut next = || numbers.next();
        let version = next()?;
        if version != Self::VERSION {
            return Some(Err(version));
        }
        let death = *Death::ALL.get(usize::try_from(next()?).ok()?)?;
        Some(Ok(Header {
            death,
            words: next()?,
            slots: next()?,
            threads: next()?,
            objects: next()?,
            resizes: next()?,
            frees: next()?,
            touches: next()?,
            stores: next()?,
            allocated_bytes: next()?,
            peak_bytes: next()?,
            peak_objects: next()?,
            regions: next()?,
        }))
    }
}
