//! Allocation, stores of pointers and deaths, as the program's thread does them under a plan.

use mmtk::memory_manager;
use mmtk::util::alloc::{AllocatorSelector, BumpAllocator, ImmixAllocator};
use mmtk::util::{Address, ObjectReference};
use mmtk::vm::slot::SimpleSlot;
use mmtk::{AllocationSemantics, BarrierSelector, Mutator};
use tare_harness::platform::WORD;

use crate::object::{cell_bytes, Object};
use crate::plan::Plan;
use crate::world::{Program, Tare, WORLD};

/// How the place of an object is found without a call.
pub mod place {
    /// Not at all: MMTk is called for each object.
    pub const CALL: u8 = 0;
    pub const BUMP: u8 = 1;
    pub const IMMIX: u8 = 2;
}

/// What a store of a pointer has to tell the collector.
pub mod barrier {
    pub const NONE: u8 = 0;
    /// The object written to, afterwards.
    pub const OBJECT: u8 = 1;
    /// The pointer that is written over, before.
    pub const SNAPSHOT: u8 = 2;
}

/// A heap as the program's thread sees it. What differs between plans is constant, so that nothing
/// is asked in the loop.
pub struct Heap<const PLACE: u8, const BARRIER: u8, const POST: bool> {
    program: *mut Program,
    mutator: *mut Mutator<Tare>,
    selector: AllocatorSelector,
    largest_small: usize,
    has_nursery: bool,
    keeps_dead: bool,
    period: u64,
    since_collection: u64,
}

/// What a plan's heap needs, as the numbers that `Heap` takes: its place, its barrier, and whether
/// MMTk is to be told of each new object.
pub fn kind_of(plan: Plan) -> (u8, u8, bool) {
    let selector =
        memory_manager::get_allocator_mapping(WORLD.mmtk(), AllocationSemantics::Default);
    let checked = cfg!(feature = "checked");
    let barrier = match WORLD.mmtk().get_plan().constraints().barrier {
        BarrierSelector::SATBBarrier => barrier::SNAPSHOT,
        BarrierSelector::NoBarrier => barrier::NONE,
        BarrierSelector::ObjectBarrier => barrier::OBJECT,
    };
    // Compressor and MarkCompact want to know of each object, and their allocators leave room.
    let place = match (plan, selector) {
        (Plan::SemiSpace | Plan::GenCopy | Plan::GenImmix, AllocatorSelector::BumpPointer(_)) => {
            place::BUMP
        }
        (Plan::Immix | Plan::StickyImmix, AllocatorSelector::Immix(_)) => place::IMMIX,
        _ => place::CALL,
    };
    let post = checked || place == place::CALL || plan == Plan::StickyImmix;
    (place, barrier, post)
}

impl<const PLACE: u8, const BARRIER: u8, const POST: bool> Heap<PLACE, BARRIER, POST> {
    /// A `period` of 0 is none.
    pub fn new(period: u64, keeps_dead: bool) -> Self {
        let mmtk = WORLD.mmtk();
        let plan = mmtk.get_plan();
        let program = WORLD.program();
        Heap {
            program,
            // SAFETY: this is the program's thread.
            mutator: unsafe { (*program).mutator },
            selector: memory_manager::get_allocator_mapping(mmtk, AllocationSemantics::Default),
            largest_small: plan.constraints().max_non_los_default_alloc_bytes,
            has_nursery: plan.generational().is_some(),
            keeps_dead,
            period: if period == 0 { u64::MAX } else { period },
            since_collection: 0,
        }
    }

    #[inline(always)]
    fn mutator(&mut self) -> &mut Mutator<Tare> {
        // SAFETY: the mutator is never dropped, and the collector uses it only while this thread
        // waits in one of MMTk's functions.
        unsafe { &mut *self.mutator }
    }

    /// An object with zeros as its contents. Where the heap is too small for it, the process ends.
    #[inline(always)]
    pub fn allocate(&mut self, slot: u32, size: u64) -> Option<Object> {
        self.since_collection += size;
        if self.since_collection > self.period {
            self.collect();
            self.since_collection = size;
        }
        let bytes = cell_bytes(size)?;
        let small = bytes <= self.largest_small;
        let address = match small.then(|| self.bump(bytes)).flatten() {
            Some(address) => address,
            None => self.call(bytes, small)?,
        };
        let object = Object(address.as_usize());
        // SAFETY: the cell is fresh, which MMTk fills with zeros.
        unsafe { object.write_header(bytes) };
        if POST || !small {
            // SAFETY: the object is there.
            let reference = unsafe { ObjectReference::from_raw_address_unchecked(address) };
            memory_manager::post_alloc(self.mutator(), reference, bytes, semantics(small));
        }
        if self.has_nursery {
            // SAFETY: this is the program's thread.
            unsafe { (*self.program).young.push(slot) };
        }
        Some(object)
    }

    #[inline(always)]
    fn bump(&mut self, bytes: usize) -> Option<Address> {
        let selector = self.selector;
        let mutator = self.mutator();
        let pointer = match PLACE {
            place::BUMP => {
                // SAFETY: the plan has that allocator.
                let allocator =
                    unsafe { mutator.allocator_impl_mut::<BumpAllocator<Tare>>(selector) };
                &mut allocator.bump_pointer
            }
            place::IMMIX => {
                // SAFETY: the plan has that allocator.
                let allocator =
                    unsafe { mutator.allocator_impl_mut::<ImmixAllocator<Tare>>(selector) };
                &mut allocator.bump_pointer
            }
            _ => return None,
        };
        let (start, end) = (pointer.cursor, pointer.cursor + bytes);
        (end <= pointer.limit).then(|| {
            pointer.cursor = end;
            start
        })
    }

    #[inline(never)]
    fn call(&mut self, bytes: usize, small: bool) -> Option<Address> {
        let address = memory_manager::alloc(self.mutator(), bytes, WORD, 0, semantics(small));
        (!address.is_zero()).then_some(address)
    }

    /// # Safety
    /// Both objects are alive, and `offset` is that of a word of the first.
    #[inline(always)]
    pub unsafe fn store(&mut self, source: Object, offset: u64, target: Option<Object>) {
        if target.is_some() {
            // SAFETY: the caller promises the source.
            unsafe { source.note_pointer(offset) };
        }
        let place = source.word(offset);
        let value = target.map_or(0, |object| object.0);
        // SAFETY: the caller promises the word.
        let write = || unsafe { (place as *mut usize).write(value) };
        if BARRIER == barrier::NONE {
            write();
            return;
        }
        // SAFETY: these are addresses of objects and of a word.
        let (from, slot, to) = unsafe { references(source, place, value) };
        if BARRIER == barrier::SNAPSHOT {
            memory_manager::object_reference_write_pre(self.mutator(), from, slot, to);
        }
        write();
        if BARRIER == barrier::OBJECT {
            memory_manager::object_reference_write_post(self.mutator(), from, slot, to);
        }
    }

    /// The object has died: nothing but other objects may hold it from now on.
    #[inline(always)]
    pub fn give_up(&mut self, object: Object) {
        if self.keeps_dead {
            // SAFETY: this is the program's thread.
            unsafe { (*self.program).dead.push(object) };
        }
    }

    /// Collects the whole heap.
    #[cold]
    fn collect(&mut self) {
        let itself = self.mutator().mutator_tls;
        WORLD
            .mmtk()
            .handle_user_collection_request(itself, true, true);
    }
}

fn semantics(small: bool) -> AllocationSemantics {
    if small {
        AllocationSemantics::Default
    } else {
        AllocationSemantics::Los
    }
}

/// # Safety
/// `source` is an object, `place` a word of it, and `value` the address of an object or 0.
#[inline(always)]
unsafe fn references(
    source: Object,
    place: usize,
    value: usize,
) -> (ObjectReference, SimpleSlot, Option<ObjectReference>) {
    // SAFETY: the caller promises addresses.
    let (source, place, value) = unsafe {
        (
            Address::from_usize(source.0),
            Address::from_usize(place),
            Address::from_usize(value),
        )
    };
    // SAFETY: no object has the address 0.
    let from = unsafe { ObjectReference::from_raw_address_unchecked(source) };
    let to = ObjectReference::from_raw_address(value);
    (from, SimpleSlot::from_address(place), to)
}
