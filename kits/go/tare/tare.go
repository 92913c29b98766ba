// Package tare reports what a benchmark costs Go's collector, beside its times.
package tare

import (
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

type counts struct {
	collections, collector, busy float64
	pauses                       time.Duration
}

// Go 1.19 has no processor times; those that are not there are 0 and are not reported. All of
// them are as of the end of the last collection.
func read() (now counts, hasTimes bool) {
	samples := []metrics.Sample{
		{Name: "/gc/cycles/total:gc-cycles"},
		{Name: "/cpu/classes/gc/total:cpu-seconds"},
		{Name: "/cpu/classes/total:cpu-seconds"},
		{Name: "/cpu/classes/idle:cpu-seconds"},
	}
	metrics.Read(samples)
	now.collections = float64(samples[0].Value.Uint64())
	hasTimes = true
	for _, sample := range samples[1:] {
		hasTimes = hasTimes && sample.Value.Kind() == metrics.KindFloat64
	}
	if hasTimes {
		now.collector = samples[1].Value.Float64()
		now.busy = samples[2].Value.Float64() - samples[3].Value.Float64()
	}
	var stats debug.GCStats
	debug.ReadGCStats(&stats)
	now.pauses = stats.PauseTotal
	return now, hasTimes
}

// Report adds what comes to pass from here to the end of the benchmark to its line: allocs/op and
// B/op, collections, pauses and the collector's processor time of an iteration, and the
// collector's share of the processor time. Call it right before the loop: it
// also sets the benchmark's timer to zero.
func Report(b *testing.B) {
	b.Helper()
	b.ReportAllocs()
	begin, _ := read()
	b.Cleanup(func() {
		end, hasTimes := read()
		iterations := float64(b.N)
		b.ReportMetric((end.collections-begin.collections)/iterations, "gc-cycles/op")
		b.ReportMetric(float64(end.pauses-begin.pauses)/iterations, "gc-pause-ns/op")
		if !hasTimes {
			return
		}
		collector, share := end.collector-begin.collector, 0.0
		if busy := end.busy - begin.busy; busy > 0 {
			share = 100 * collector / busy
		}
		b.ReportMetric(collector*1e9/iterations, "gc-cpu-ns/op")
		b.ReportMetric(share, "gc-cpu-%")
	})
	b.ResetTimer()
}
