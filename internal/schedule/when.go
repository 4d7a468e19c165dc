package schedule

import (
	"strings"
	"time"
	_ "time/tzdata" // a machine without time zones runs schedules too

	"github.com/netresearch/go-cron"

	"github.com/toolroom/toolroom"
)

// When says at which times a schedule runs.
type When struct {
	text string
	zone *time.Location
	// One of these four is set.
	once  time.Time
	in    time.Duration // once, so long after the start
	every time.Duration
	spec  *cron.SpecSchedule
}

// MinInterval is the shortest time between two runs of a schedule.
const MinInterval = time.Minute

const maxInterval = 366 * 24 * time.Hour

// endOfTime is the first time at which a schedule cannot run: stores count nanoseconds since 1970
// in 64 bits.
func endOfTime() time.Time { return time.Date(2262, 1, 1, 0, 0, 0, 0, time.UTC) }

var parser = cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor | cron.DowOrDom | cron.Extended)

// ParseWhen reads a cron expression of five fields, a name such as @daily, an interval such
// as "@every 30m", or one time such as 2026-12-01T09:00 or "@in 30m". Fields, names and times without an
// offset mean the time of the named zone; an empty zone is UTC.
func ParseWhen(text, zone string) (*When, error) {
	text = strings.TrimSpace(text)
	location, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%.80q is not a time zone", zone).
			WithHint("use a name of the IANA database, such as Europe/Berlin, America/New_York or UTC")
	}
	w := &When{text: text, zone: location}
	if rest, ok := strings.CutPrefix(text, "@every "); ok {
		w.every, err = duration(text, rest)
		return w, err
	}
	if rest, ok := strings.CutPrefix(text, "@in "); ok {
		w.in, err = duration(text, rest)
		return w, err
	}
	if len(text) > 0 && text[0] >= '0' && text[0] <= '9' && strings.Count(text, "-") >= 2 && strings.Contains(text, ":") {
		if w.once, err = parseTime(text, location); err == nil && !w.once.Before(endOfTime()) {
			err = errWhen(text, "it is after the year 2261")
		}
		return w, err
	}
	if strings.Contains(text, "=") {
		return nil, errWhen(text, "the time zone has an argument of its own: timezone")
	}
	parsed, err := parser.Parse(text)
	if err != nil {
		return nil, errWhen(text, strings.ReplaceAll(err.Error(), "\n", " "))
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, errWhen(text, "it has no fields")
	}
	spec.Location = time.UTC
	w.spec = spec
	if spec.Next(time.Unix(0, 0).UTC()).IsZero() {
		return nil, errWhen(text, "no day matches it")
	}
	return w, nil
}

func duration(when, text string) (time.Duration, error) {
	d, err := time.ParseDuration(strings.TrimSpace(text))
	if err != nil || d < MinInterval || d > maxInterval {
		return 0, errWhen(when, "a duration such as 90m is at least 1m and at most 8784h")
	}
	return d.Truncate(time.Second), nil
}

func errWhen(text, why string) error {
	return toolroom.Errorf(toolroom.CodeInvalidArguments, "%.80q is not a schedule: %s", text, why).
		WithHint(`write "minute hour day month weekday", such as "0 9 * * MON-FRI" or "*/15 * * * *"; or @hourly, @daily, @weekly, "@every 90m"; or one time, such as 2026-12-01T09:00 or "@in 90m"`)
}

func parseTime(text string, zone *time.Location) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t.Truncate(time.Second), nil
	}
	for _, form := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04"} {
		if wall, err := time.Parse(form, text); err == nil {
			return instantOf(wall, zone), nil
		}
	}
	return time.Time{}, errWhen(text, "it is not a date with a time")
}

// Next returns the first time after a time at which the schedule runs, or the zero time if
// there is none. Intervals and "@in" count from start.
//
// A change of the clocks moves no run of a schedule that names hours to another day, drops
// none, and repeats none: a time that is left out runs when the clocks have changed, and of
// a time that occurs twice only the first runs. A schedule for all hours runs in each hour
// that passes.
func (w *When) Next(after, start time.Time) time.Time {
	switch {
	case w.spec == nil && w.every == 0: // once; "0001-01-01T00:00" is the zero time
		once := w.once
		if w.in > 0 {
			once = start.Add(w.in).UTC()
		}
		if once.After(after) {
			return once
		}
		return time.Time{}
	case w.every > 0:
		if after.Before(start) {
			after = start
		}
		return start.Add((after.Sub(start)/w.every + 1) * w.every).UTC()
	case w.spec.Hour&allHours == allHours:
		return w.nextInEveryHour(after)
	}
	for wall := wallTime(after, w.zone); ; {
		if wall = w.spec.Next(wall); wall.IsZero() {
			return wall
		}
		if t := instantOf(wall, w.zone); t.After(after) {
			return t
		}
	}
}

const allHours = 1<<24 - 1

// nextInEveryHour counts real hours: it looks for the next time within one offset of the
// zone, and continues with the next offset.
func (w *When) nextInEveryHour(after time.Time) time.Time {
	const offsets = 40 // more than change in the years that a search lasts
	at := after.In(w.zone)
	for range offsets {
		wall := wallTime(at, w.zone)
		next := w.spec.Next(wall)
		if next.IsZero() {
			return next
		}
		t := at.Add(next.Sub(wall))
		_, end := at.ZoneBounds()
		if end.IsZero() || t.Before(end) {
			return t.UTC()
		}
		// A time at the change itself counts, so the search goes on just before it.
		first := wallTime(end, w.zone)
		if w.spec.Next(first.Add(-time.Second)).Equal(first) {
			return end.UTC()
		}
		at = end
	}
	return time.Time{}
}

// wallTime returns the time that clocks of a zone show at t, as a time in UTC.
func wallTime(t time.Time, zone *time.Location) time.Time {
	t = t.In(zone)
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

// instantOf returns the first moment at which clocks of a zone show a time, or at which
// they pass it because they are put forward.
func instantOf(wall time.Time, zone *time.Location) time.Time {
	const day = 24 * time.Hour
	var first time.Time
	for _, near := range []time.Time{wall.Add(-day), wall.Add(day)} {
		_, offset := near.In(zone).Zone()
		t := wall.Add(-time.Duration(offset) * time.Second)
		if wallTime(t, zone).Equal(wall) && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	if !first.IsZero() {
		return first
	}
	_, before := wall.Add(-day).In(zone).Zone()
	change, _ := wall.Add(-time.Duration(before) * time.Second).In(zone).ZoneBounds()
	return change.UTC()
}

// String returns the text that was parsed.
func (w *When) String() string { return w.text }

// Zone returns the time zone.
func (w *When) Zone() *time.Location { return w.zone }
