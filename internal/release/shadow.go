package release

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
)

// ShadowRun is a call that a version made beside the one that answered. What it returned was
// compared and thrown away.
type ShadowRun struct {
	Time        time.Time `json:"time"`
	Tool        string    `json:"tool"`
	Environment string    `json:"environment"`
	Version     int       `json:"version"`
	Base        int       `json:"base"`
	// Call answered, and Shadow is the call of the version.
	Call   string `json:"call"`
	Shadow string `json:"shadow,omitempty"`
	// Calls is how many calls a skipped run stands for; 0 means one.
	Calls int `json:"calls,omitempty"`
	// Outcome is same, different, failed (only the version failed), fixed (only the base
	// failed) or skipped.
	Outcome string `json:"outcome"`
	// Differences are the first places where the values differ, or why the run was skipped.
	Differences []string      `json:"differences,omitempty"`
	Took        time.Duration `json:"took_ns"`
	BaseTook    time.Duration `json:"base_took_ns"`
}

// Outcomes of shadow runs.
const (
	ShadowSame      = "same"
	ShadowDifferent = "different"
	ShadowFailed    = "failed"
	ShadowFixed     = "fixed"
	ShadowSkipped   = "skipped"
)

// ShadowReport sums up the runs of a version beside another.
type ShadowReport struct {
	Tool        string         `json:"tool"`
	Environment string         `json:"environment"`
	Version     int            `json:"version"`
	Base        int            `json:"base"`
	Outcomes    map[string]int `json:"outcomes"`
	// Median and BaseMedian are the run times of the calls that both versions answered.
	Median     time.Duration `json:"median_ns"`
	BaseMedian time.Duration `json:"base_median_ns"`
	// Differing are the newest runs that were not the same.
	Differing []ShadowRun `json:"differing"`
}

// shadowRuns is how many of the newest runs a report counts, and differing how many it
// lists.
const (
	shadowRuns    = 10_000
	maxListedRuns = 20
)

// ShadowReport returns what shadow runs of a version have shown; zero means the canary of
// the environment.
func (s *Service) ShadowReport(ctx context.Context, tool, environment string, version int) (*ShadowReport, error) {
	environment = cmp.Or(environment, Prod)
	if err := s.checkEnvironment(environment); err != nil {
		return nil, err
	}
	if version == 0 {
		current, err := s.currentRelease(ctx, tool, environment)
		if err != nil {
			return nil, err
		}
		if version = current.Canary; version == 0 {
			return nil, toolroom.Errorf(toolroom.CodeNotFound, "no version of %s runs as a shadow in %s", tool, environment).
				WithCLIHint("start one: toolroom tool release %s@N --env %s --shadow; or name the version of an earlier one: %s@N", tool, environment, tool)
		}
	}
	runs, err := s.Store.ShadowRuns(ctx, tool, environment, version, shadowRuns)
	if err != nil {
		return nil, err
	}
	r := &ShadowReport{Tool: tool, Environment: environment, Version: version, Outcomes: map[string]int{}, Differing: []ShadowRun{}}
	var mine, theirs []time.Duration
	for _, one := range runs {
		r.Base = cmp.Or(r.Base, one.Base)
		r.Outcomes[one.Outcome] += max(one.Calls, 1)
		if one.Outcome == ShadowSame || one.Outcome == ShadowDifferent { // a failure is often quick
			mine, theirs = append(mine, one.Took), append(theirs, one.BaseTook)
		}
		if one.Outcome != ShadowSame && len(r.Differing) < maxListedRuns {
			r.Differing = append(r.Differing, *one)
		}
	}
	if len(mine) > 0 {
		r.Median, r.BaseMedian = median(mine), median(theirs)
	}
	return r, nil
}

// maxDifferences is how many places of a run are recorded.
const maxDifferences = 5

// CompareShadow sets the outcome of a run from the two results. Ignore are places that may
// differ, such as /time and /items/*/id.
func (r *ShadowRun) CompareShadow(base, shadow *toolroom.Result, ignore []string) {
	r.Took, r.BaseTook = shadow.Usage.Run, base.Usage.Run
	switch {
	case base.Hidden != nil:
		r.Outcome, r.Differences = ShadowSkipped, []string{"the value is too long to compare"}
	case shadow.Error != nil && (shadow.Error.Code == toolroom.CodeApprovalRequired || shadow.Error.Code == toolroom.CodeDenied):
		r.Outcome, r.Differences = ShadowSkipped, []string{shadow.Error.Message}
	case base.Error != nil && shadow.Error != nil && base.Error.Code == shadow.Error.Code:
		r.Outcome = ShadowSame
	case shadow.Error != nil:
		r.Outcome, r.Differences = ShadowFailed, []string{string(shadow.Error.Code) + ": " + shorten([]byte(shadow.Error.Message))}
	case base.Error != nil:
		r.Outcome = ShadowFixed
	default:
		r.Outcome = ShadowSame
		if r.Differences = differences(valueOf(base), valueOf(shadow), ignore); len(r.Differences) > 0 {
			r.Outcome = ShadowDifferent
		}
	}
}

// valueOf returns the value of a result, or its text.
func valueOf(r *toolroom.Result) any {
	if v, err := jsonx.Decode(r.Value, jsonx.Limits{}); err == nil && len(r.Value) > 0 {
		return v
	}
	return r.Text()
}

// differences returns the first places where two values differ.
func differences(base, shadow any, ignore []string) []string {
	var out []string
	var walk func(path string, a, b any)
	walk = func(path string, a, b any) {
		if len(out) == maxDifferences || slices.ContainsFunc(ignore, func(p string) bool { return ignores(p, path) }) {
			return
		}
		switch a := a.(type) {
		case map[string]any:
			if b, ok := b.(map[string]any); ok {
				all := maps.Clone(a)
				maps.Copy(all, b)
				for _, key := range slices.Sorted(maps.Keys(all)) {
					at := path + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
					x, inA := a[key]
					y, inB := b[key]
					switch {
					case inA && inB:
						walk(at, x, y)
					case slices.ContainsFunc(ignore, func(p string) bool { return ignores(p, at) }) || len(out) == maxDifferences:
					case inA:
						out = append(out, at+" is missing")
					default:
						out = append(out, at+" is new: "+formatValue(y))
					}
				}
				return
			}
		case []any:
			if b, ok := b.([]any); ok && len(a) == len(b) {
				for i := range a {
					walk(path+"/"+strconv.Itoa(i), a[i], b[i])
				}
				return
			}
		}
		x, _ := json.Marshal(a) // decoded JSON can always be encoded
		y, _ := json.Marshal(b)
		if !sameJSON(x, y) {
			out = append(out, fmt.Sprintf("%s is %s, and was %s", cmp.Or(path, "the value"), shorten(y), shorten(x)))
		}
	}
	walk("", base, shadow)
	return out
}

func formatValue(v any) string {
	text, _ := json.Marshal(v)
	return shorten(text)
}

// ignores reports whether a pattern such as /items/*/id covers a place.
func ignores(pattern, place string) bool {
	want, have := strings.Split(pattern, "/"), strings.Split(place, "/")
	if len(want) > len(have) {
		return false
	}
	for i, w := range want {
		if w != "*" && w != have[i] {
			return false
		}
	}
	return true
}
