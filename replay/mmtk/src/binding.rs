//! What MMTk has to know of the objects, the roots and the thread of a replay.

use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{ptr, thread};

use mmtk::util::alloc::AllocationError;
use mmtk::util::copy::{CopySemantics, GCWorkerCopyContext};
use mmtk::util::opaque_pointer::{OpaquePointer, VMMutatorThread, VMThread, VMWorkerThread};
use mmtk::util::{Address, ObjectReference};
use mmtk::vm::slot::{SimpleSlot, UnimplementedMemorySlice};
use mmtk::vm::{
    ActivePlan, Collection, GCThreadContext, ObjectModel, ReferenceGlue, RootsWorkFactory,
    Scanning, SlotVisitor, VMBinding, VMGlobalLogBitSpec, VMLocalForwardingBitsSpec,
    VMLocalForwardingPointerSpec, VMLocalLOSMarkNurserySpec, VMLocalMarkBitSpec,
};
use mmtk::{memory_manager, Mutator};
use tare_harness::platform::WORD;
use tare_harness::{NO_MEMORY_FROM_THE_KERNEL, OUT_OF_MEMORY};

use crate::object::Object;
use crate::world::{Tare, WORLD};

/// Each packet of work for the collector's threads has so many roots.
const ROOTS_IN_A_PACKET: usize = 4096;

/// Only collections whose number is a multiple of this reclaim what has died.
pub static RECLAIM: AtomicU64 = AtomicU64::new(1);

impl VMBinding for Tare {
    type VMObjectModel = Tare;
    type VMScanning = Tare;
    type VMCollection = Tare;
    type VMActivePlan = Tare;
    type VMReferenceGlue = Tare;
    type VMSlot = SimpleSlot;
    type VMMemorySlice = UnimplementedMemorySlice<SimpleSlot>;
    const MIN_ALIGNMENT: usize = WORD;
    const MAX_ALIGNMENT: usize = WORD;
    const USE_ALLOCATION_OFFSET: bool = false;
}

fn object(reference: ObjectReference) -> Object {
    Object(reference.to_raw_address().as_usize())
}

/// # Safety
/// `address` is that of an object.
unsafe fn reference(address: Address) -> ObjectReference {
    // SAFETY: no object has the address 0.
    unsafe { ObjectReference::from_raw_address_unchecked(address) }
}

impl ObjectModel<Tare> for Tare {
    const GLOBAL_LOG_BIT_SPEC: VMGlobalLogBitSpec = VMGlobalLogBitSpec::side_first();
    const LOCAL_FORWARDING_POINTER_SPEC: VMLocalForwardingPointerSpec =
        VMLocalForwardingPointerSpec::in_header(0);
    const LOCAL_FORWARDING_BITS_SPEC: VMLocalForwardingBitsSpec =
        VMLocalForwardingBitsSpec::in_header(0);
    const LOCAL_MARK_BIT_SPEC: VMLocalMarkBitSpec = VMLocalMarkBitSpec::side_first();
    const LOCAL_LOS_MARK_NURSERY_SPEC: VMLocalLOSMarkNurserySpec =
        VMLocalLOSMarkNurserySpec::side_after(Self::LOCAL_MARK_BIT_SPEC.as_spec());
    const UNIFIED_OBJECT_REFERENCE_ADDRESS: bool = true;
    const OBJECT_REF_OFFSET_LOWER_BOUND: isize = 0;

    fn copy(
        from: ObjectReference,
        semantics: CopySemantics,
        copier: &mut GCWorkerCopyContext<Tare>,
    ) -> ObjectReference {
        let bytes = Self::get_current_size(from);
        let start = from.to_raw_address();
        let place = copier.alloc_copy(from, bytes, WORD, 0, semantics);
        // SAFETY: the place is fresh, has that many bytes, and overlaps no object.
        unsafe { ptr::copy_nonoverlapping(start.to_ptr::<u8>(), place.to_mut_ptr(), bytes) };
        // SAFETY: the object is there now.
        let moved = unsafe { reference(place) };
        copier.post_copy(moved, bytes, semantics);
        moved
    }

    fn copy_to(from: ObjectReference, to: ObjectReference, _region: Address) -> Address {
        let bytes = Self::get_current_size(from);
        let (start, place) = (from.to_raw_address(), to.to_raw_address());
        // SAFETY: compaction slides objects down over what is dead or has moved; both may overlap.
        unsafe { ptr::copy(start.to_ptr::<u8>(), place.to_mut_ptr(), bytes) };
        place + bytes
    }

    fn get_reference_when_copied_to(_from: ObjectReference, to: Address) -> ObjectReference {
        // SAFETY: an object is going to be there.
        unsafe { reference(to) }
    }

    #[inline(always)]
    fn get_current_size(reference: ObjectReference) -> usize {
        // SAFETY: MMTk asks for what it has not begun to move.
        unsafe { object(reference).cell_bytes() }
    }

    fn get_size_when_copied(reference: ObjectReference) -> usize {
        Self::get_current_size(reference)
    }

    fn get_align_when_copied(_: ObjectReference) -> usize {
        WORD
    }

    fn get_align_offset_when_copied(_: ObjectReference) -> usize {
        0
    }

    fn get_type_descriptor(_: ObjectReference) -> &'static [i8] {
        &[]
    }

    fn ref_to_object_start(reference: ObjectReference) -> Address {
        reference.to_raw_address()
    }

    fn ref_to_header(reference: ObjectReference) -> Address {
        reference.to_raw_address()
    }

    fn dump_object(reference: ObjectReference) {
        eprintln!("{reference}: {} bytes", Self::get_current_size(reference));
    }
}

impl Collection<Tare> for Tare {
    fn stop_all_mutators<F>(_: VMWorkerThread, mut visit: F)
    where
        F: FnMut(&'static mut Mutator<Tare>),
    {
        WORLD.stop_program();
        let number = WORLD.collections.load(Ordering::Relaxed) + 1;
        if number % RECLAIM.load(Ordering::Relaxed) == 0 {
            // SAFETY: the program's thread is stopped.
            unsafe { (*WORLD.program()).dead.clear() };
        }
        // SAFETY: as above.
        if let Some(account) = unsafe { &mut (*WORLD.program()).account } {
            account.before_collection(WORLD.mmtk());
        }
        visit(Self::mutator(VMMutatorThread(VMThread::UNINITIALIZED)));
    }

    fn resume_mutators(_: VMWorkerThread) {
        // SAFETY: the program's thread is stopped.
        unsafe { (*WORLD.program()).young.clear() };
        if !is_marking_beside() && !is_nursery_collection() {
            // SAFETY: as above.
            if let Some(account) = unsafe { &mut (*WORLD.program()).account } {
                account.after_collection(WORLD.mmtk());
            }
        }
        // A collector that marks beside the program stops it twice for a collection.
        if !is_marking_beside() {
            WORLD.collections.fetch_add(1, Ordering::Relaxed);
        }
        if is_nursery_collection() {
            WORLD.nursery_collections.fetch_add(1, Ordering::Relaxed);
        }
        WORLD.resume_program();
    }

    fn block_for_gc(_: VMMutatorThread) {
        WORLD.wait_for_collection();
    }

    fn spawn_gc_thread(_: VMThread, context: GCThreadContext<Tare>) {
        let GCThreadContext::Worker(worker) = context;
        let start = move || {
            let itself = VMWorkerThread(VMThread(OpaquePointer::UNINITIALIZED));
            memory_manager::start_worker(WORLD.mmtk(), itself, worker);
        };
        if let Err(error) = thread::Builder::new().name("collector".into()).spawn(start) {
            eprintln!("tare-replay-mmtk: no thread for the collector: {error}");
            process::exit(i32::from(NO_MEMORY_FROM_THE_KERNEL));
        }
    }

    fn out_of_memory(_: VMThread, kind: AllocationError) {
        let (what, code) = match kind {
            AllocationError::HeapOutOfMemory => ("the heap is too small", OUT_OF_MEMORY),
            AllocationError::MmapOutOfMemory => (
                "the kernel gave no memory for the heap",
                NO_MEMORY_FROM_THE_KERNEL,
            ),
        };
        eprintln!("tare-replay-mmtk: {what}");
        process::exit(i32::from(code))
    }
}

fn is_marking_beside() -> bool {
    let plan = WORLD.mmtk().get_plan();
    plan.concurrent()
        .is_some_and(|plan| plan.concurrent_work_in_progress())
}

fn is_nursery_collection() -> bool {
    let plan = WORLD.mmtk().get_plan();
    plan.generational()
        .is_some_and(|plan| plan.is_current_gc_nursery())
}

impl ActivePlan<Tare> for Tare {
    fn is_mutator(thread: VMThread) -> bool {
        thread != VMThread::UNINITIALIZED
    }

    fn mutator(_: VMMutatorThread) -> &'static mut Mutator<Tare> {
        // SAFETY: the mutator was made before MMTk could ask for it, and is never dropped. That
        // there is one reference at a time cannot be had: MMTk's interface asks for one that lives
        // for ever, while the program's thread waits with another inside an allocation. MMTk uses
        // it in that thread, or while it waits.
        unsafe { &mut *(*WORLD.program()).mutator }
    }

    fn mutators<'a>() -> Box<dyn Iterator<Item = &'a mut Mutator<Tare>> + 'a> {
        Box::new(std::iter::once(Self::mutator(VMMutatorThread(
            VMThread::UNINITIALIZED,
        ))))
    }

    fn number_of_mutators() -> usize {
        1
    }
}

impl Scanning<Tare> for Tare {
    #[inline(always)]
    fn scan_object<V: SlotVisitor<SimpleSlot>>(
        _: VMWorkerThread,
        reference: ObjectReference,
        visitor: &mut V,
    ) {
        let visit = |place| {
            // SAFETY: the place is a word of the object.
            let address = unsafe { Address::from_usize(place) };
            visitor.visit_slot(SimpleSlot::from_address(address));
        };
        // SAFETY: MMTk scans objects before or after it moves them.
        unsafe { object(reference).for_each_pointer(visit) };
    }

    fn scan_roots_in_mutator_thread(
        _: VMWorkerThread,
        _: &'static mut Mutator<Tare>,
        mut factory: impl RootsWorkFactory<SimpleSlot>,
    ) {
        let mut packet = Vec::with_capacity(ROOTS_IN_A_PACKET);
        let mut add = |root: *mut Object| {
            // SAFETY: a root is a word of the table or of the list of dead objects.
            if unsafe { root.read() } == Object(0) {
                return;
            }
            packet.push(SimpleSlot::from_address(Address::from_mut_ptr(root)));
            if packet.len() == ROOTS_IN_A_PACKET {
                let full = std::mem::replace(&mut packet, Vec::with_capacity(ROOTS_IN_A_PACKET));
                factory.create_process_roots_work(full);
            }
        };
        // SAFETY: the program's thread is stopped.
        let program = unsafe { &mut *WORLD.program() };
        let table = program.table.cast::<Object>();
        if is_nursery_collection() {
            for &slot in &program.young {
                // SAFETY: the slot is one of the table.
                add(unsafe { table.add(slot as usize) });
            }
        } else {
            for slot in 0..program.table.len() {
                // SAFETY: as above.
                add(unsafe { table.add(slot) });
            }
        }
        for root in &mut program.dead {
            add(root);
        }
        if !packet.is_empty() {
            factory.create_process_roots_work(packet);
        }
    }

    fn scan_vm_specific_roots(_: VMWorkerThread, _: impl RootsWorkFactory<SimpleSlot>) {}

    fn notify_initial_thread_scan_complete(_: bool, _: VMWorkerThread) {}

    fn supports_return_barrier() -> bool {
        false
    }

    fn prepare_for_roots_re_scanning() {}
}

/// There are no weak references here: a dead object is one that nothing holds.
impl ReferenceGlue<Tare> for Tare {
    type FinalizableType = ObjectReference;

    fn clear_referent(_: ObjectReference) {}

    fn get_referent(_: ObjectReference) -> Option<ObjectReference> {
        None
    }

    fn set_referent(_: ObjectReference, _: ObjectReference) {}

    fn enqueue_references(_: &[ObjectReference], _: VMWorkerThread) {}
}
