package main

import (
	"context"
	"fmt"
	"os"
	"runtime/pprof"
	"slices"
	"strings"
)

// compare measures Toolroom as several builds of this command have it, in turn, each as a
// multiple of the plain proxy's CPU in the same round. So other work on the machine affects
// all of them alike. It prints medians.
func compare(ctx context.Context, o options) error {
	up, err := start(ctx, "upstream", "", fmt.Sprintf("-writes=%t", o.writes))
	if err != nil {
		return err
	}
	defer up.end()
	plain, err := start(ctx, "proxy", up.url)
	if err != nil {
		return err
	}
	defer plain.end()
	routes := []route{{"plain proxy", plain}}
	for build := range strings.SplitSeq(o.builds, ",") {
		name, path, _ := strings.Cut(build, "=")
		p, err := startBuild(ctx, path, "toolroom", up.url)
		if err != nil {
			return err
		}
		defer p.end()
		routes = append(routes, route{name, p})
	}
	each := []int{1, 64}
	if o.connections > 0 {
		each = []int{o.connections}
	}
	for _, connections := range each {
		fmt.Printf("%d connections, closed loop, %d rounds of %d calls for each route\n", connections, o.rounds, o.calls)
		cpu, ratios, p50 := make([][]float64, len(routes)), make([][]float64, len(routes)), make([][]float64, len(routes))
		for round := range o.rounds + 1 {
			var base figure
			for i, r := range routes {
				f, err := load(ctx, r.process, modern, connections, o.calls)
				if err != nil {
					return fmt.Errorf("%s: %w", r.name, err)
				}
				if i == 0 {
					base = f
				}
				if round == 0 {
					continue // warms up
				}
				cpu[i] = append(cpu[i], float64(f.cpu.Nanoseconds())/1e3)
				ratios[i] = append(ratios[i], float64(f.cpu)/float64(base.cpu))
				p50[i] = append(p50[i], ms(f.p50))
			}
		}
		for i, r := range routes {
			slices.Sort(ratios[i])
			n := len(ratios[i])
			fmt.Printf("  %-15s CPU %4.0f µs/call  %.2f times the plain proxy's (quarters %.2f and %.2f)  p50 %6.2f ms\n",
				r.name, median(cpu[i]), median(ratios[i]), ratios[i][n/4], ratios[i][n*3/4], median(p50[i]))
		}
	}
	return nil
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// withProfile runs do and writes its CPU profile to a file, if one is named.
func withProfile(file string, do func() error) error {
	if file == "" {
		return do()
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := pprof.StartCPUProfile(f); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	return do()
}
