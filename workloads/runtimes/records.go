// Chains of records in a table, in Go: the same work as the other programs of this folder.
//
//	records [ITERATIONS] [SLOTS] [RECORDS]
package main

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

const mostDepth = 8

const (
	clockMonotonic = 1
	clockProcess   = 2
)

type record struct {
	key      uint32
	values   []uint32
	depth    int
	next     *record
	previous *record
}

func newRecord(key uint32, depth int, following *record) *record {
	made := &record{key, []uint32{key, key ^ 1, key ^ 2, key ^ 3}, depth, following, nil}
	if following != nil {
		following.previous = made
	}
	return made
}

// iterate makes records, each in front of the chain of a slot, and drops chains that are long.
func iterate(slots, records int) uint32 {
	table := make([]*record, slots)
	var state, digest uint32 = 1, 0
	for number := 0; number < records; number++ {
		state = state*1664525 + 1013904223
		slot := int(state>>8) % slots
		old := table[slot]
		if old != nil && old.depth < mostDepth {
			table[slot] = newRecord(state, old.depth+1, old)
		} else {
			table[slot] = newRecord(state, 0, nil)
		}
		for each := table[slot].next; each != nil; each = each.next {
			digest = digest*31 + each.values[each.depth&3]
		}
	}
	return digest
}

func clock(which uintptr) int64 {
	var now syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, which, uintptr(unsafe.Pointer(&now)), 0)
	return now.Nano()
}

func main() {
	numbers := []int{12, 20000, 200000}
	for place, word := range os.Args[1:] {
		if place < len(numbers) {
			numbers[place], _ = strconv.Atoi(word)
		}
	}
	times := "iteration,start_ns,end_ns,cpu_ns\n"
	var digest uint32
	for number := 0; number < numbers[0]; number++ {
		start, cpu := clock(clockMonotonic), clock(clockProcess)
		digest = iterate(numbers[1], numbers[2])
		end, used := clock(clockMonotonic), clock(clockProcess)-cpu
		times += fmt.Sprintf("%d,%d,%d,%d\n", number, start, end, used)
	}
	if path := os.Getenv("TARE_ITERATIONS"); path != "" {
		if err := os.WriteFile(path, []byte(times), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	fmt.Printf("%08x\n", digest)
}
