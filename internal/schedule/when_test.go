package schedule_test

import (
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/schedule"
)

func when(t *testing.T, text, zone string) *schedule.When {
	t.Helper()
	w, err := schedule.ParseWhen(text, zone)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func at(t *testing.T, text string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// In Berlin, the clocks go from 02:00 to 03:00 on 29 March 2026 and from 03:00 back to 02:00
// on 25 October 2026.
func TestNextRuns(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, text, zone, after string
		want                    []string
	}{
		{"working days", "0 9 * * MON-FRI", "Europe/Berlin", "2026-01-02T12:00:00+01:00", []string{"2026-01-05T09:00:00+01:00", "2026-01-06T09:00:00+01:00"}},
		{"the 13th or a Friday", "0 0 13 * FRI", "", "2026-02-11T00:00:00Z", []string{"2026-02-13T00:00:00Z", "2026-02-20T00:00:00Z", "2026-02-27T00:00:00Z", "2026-03-06T00:00:00Z", "2026-03-13T00:00:00Z"}},
		{"the last day of a month", "0 0 L * *", "", "2028-01-31T00:00:00Z", []string{"2028-02-29T00:00:00Z", "2028-03-31T00:00:00Z"}},
		{"a leap day", "0 0 29 2 *", "", "2026-01-01T00:00:00Z", []string{"2028-02-29T00:00:00Z"}},
		{"a name", "@daily", "America/New_York", "2026-01-01T12:00:00Z", []string{"2026-01-02T00:00:00-05:00"}},
		{"an interval", "@every 90m", "", "2026-01-01T00:00:00Z", []string{"2026-01-01T01:30:00Z", "2026-01-01T03:00:00Z"}},
		{"once, after a while", "@in 90m", "", "2026-01-01T00:00:00Z", []string{"2026-01-01T01:30:00Z", ""}},
		{"once", "2026-12-01T09:00", "Europe/Berlin", "2026-01-01T00:00:00Z", []string{"2026-12-01T09:00:00+01:00", ""}},
		{"once with an offset", "2026-12-01T09:00:00-03:00", "Europe/Berlin", "2026-01-01T00:00:00Z", []string{"2026-12-01T12:00:00Z", ""}},
		{"a time that is left out", "30 2 * * *", "Europe/Berlin", "2026-03-28T02:30:00+01:00", []string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"}},
		{"many times that are left out", "*/10 2 * * *", "Europe/Berlin", "2026-03-28T02:50:00+01:00", []string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"}},
		{"left out, and the hour after it", "0 2,3 * * *", "Europe/Berlin", "2026-03-29T00:00:00+01:00", []string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"}},
		{"a time that occurs twice", "30 2 * * *", "Europe/Berlin", "2026-10-25T00:00:00+02:00", []string{"2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"}},
		{"every hour, clocks put forward", "30 * * * *", "Europe/Berlin", "2026-03-29T00:45:00+01:00", []string{"2026-03-29T01:30:00+01:00", "2026-03-29T03:30:00+02:00"}},
		{"every hour, clocks put back", "30 * * * *", "Europe/Berlin", "2026-10-25T02:00:00+02:00", []string{"2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00", "2026-10-25T03:30:00+01:00"}},
		{"the full hour at the change", "0 * * * *", "Europe/Berlin", "2026-10-25T02:30:00+02:00", []string{"2026-10-25T02:00:00+01:00", "2026-10-25T03:00:00+01:00"}},
		{"the full hour, put forward", "0 * * * *", "Europe/Berlin", "2026-03-29T01:00:00+01:00", []string{"2026-03-29T03:00:00+02:00", "2026-03-29T04:00:00+02:00"}},
		{"a midnight that is left out", "0 0 * * *", "America/Asuncion", "2023-09-30T12:00:00Z", []string{"2023-10-01T01:00:00-03:00", "2023-10-02T00:00:00-03:00"}},
		{"a day that is left out", "0 9 * * *", "Pacific/Apia", "2011-12-29T09:00:00-10:00", []string{"2011-12-31T00:00:00+14:00", "2011-12-31T09:00:00+14:00"}},
		{"half an hour", "15 2 * * *", "Australia/Lord_Howe", "2026-10-04T00:00:00+10:30", []string{"2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"}},
	} {
		w := when(t, tt.text, tt.zone)
		from := at(t, tt.after)
		for _, want := range tt.want {
			got := w.Next(from, at(t, tt.after))
			if want == "" && got.IsZero() {
				break
			}
			if want == "" || !got.Equal(at(t, want)) {
				t.Errorf("%s: %s, want %s", tt.name, got.In(w.Zone()).Format(time.RFC3339), want)
				break
			}
			from = got
		}
	}
}

// Over two years and in several zones, schedules agree with a search that looks at every
// minute.
func TestNextAgreesWithASearchMinuteByMinute(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Kathmandu"} {
		location, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		start, end := at(t, "2026-02-20T00:00:00Z"), at(t, "2026-11-10T00:00:00Z")
		for text, fits := range map[string]func(w time.Time) bool{
			"*/20 * * * *": func(w time.Time) bool { return w.Minute()%20 == 0 },
			"5 * * * SUN":  func(w time.Time) bool { return w.Minute() == 5 && w.Weekday() == time.Sunday },
		} {
			w, next := when(t, text, zone), start
			for minute := start.Add(time.Minute); minute.Before(end); minute = minute.Add(time.Minute) {
				if !fits(minute.In(location)) {
					continue
				}
				if next = w.Next(next, start); !next.Equal(minute) {
					t.Fatalf("%s in %s: %s, want %s", text, zone, next.In(location), minute.In(location))
				}
			}
		}
		// A schedule for one time of a day runs once on each day.
		w, days := when(t, "30 2 * * *", zone), map[string]int{}
		next := w.Next(start, start)
		for ; next.Before(end); next = w.Next(next, start) {
			days[next.In(location).Format(time.DateOnly)]++
		}
		for day := start.In(location).AddDate(0, 0, 1); day.Before(end.AddDate(0, 0, -1)); day = day.AddDate(0, 0, 1) {
			if n := days[day.Format(time.DateOnly)]; n != 1 {
				t.Errorf("%s: %d runs on %s", zone, n, day.Format(time.DateOnly))
			}
		}
	}
}

func TestWhatIsNoSchedule(t *testing.T) {
	t.Parallel()
	for text, zone := range map[string]string{
		"": "", "* * * *": "", "* * * * * *": "", "61 * * * *": "", "0 0 30 2 *": "", "@reboot": "", "@every 1s": "", "@every -1h": "", "@every 10000h": "", "@in an hour": "", "@in 5s": "", "@in": "",
		"TZ=UTC 0 9 * * *": "", "CRON_TZ=Europe/Berlin 0 9 * * *": "", "every day": "", "2026-13-01T09:00": "", "2262-01-01T00:00": "", "9999-12-31T23:59:59Z": "", "2026-12-01": "",
		"0 9 * * *": "Europe/Berlni", "0 10 * * *": "../../etc/passwd", "0 11 * * *": "Local", "0 12 * * *\n* * * * *": "", "H * * * *": "",
		strings.Repeat("1,", 5000) + "1 * * * *x": "", "0-4294967295 * * * *": "", "*/0 * * * *": "",
	} {
		w, err := schedule.ParseWhen(text, zone)
		if toolroom.CodeOf(err) != toolroom.CodeInvalidArguments || toolroom.AsError(err).Hint == "" {
			t.Errorf("%.40q in %q is %v, %v", text, zone, w, err)
		}
	}
}

func TestTheFirstMomentOfAllIsOver(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"0001-01-01T00:00", "0001-01-01T00:00:00Z"} {
		now := at(t, "2026-01-01T00:00:00Z")
		if next := when(t, text, "").Next(now, now); !next.IsZero() {
			t.Errorf("%s runs at %s", text, next)
		}
	}
}

func FuzzNextIsLaterAndEnds(f *testing.F) {
	for _, seed := range []string{"0 9 * * *", "@every 1m", "*/7 */5 L * 1#2", "2026-12-01T09:00", "0001-01-01T00:00", "0 0 15W 2-4 ?"} {
		f.Add(seed, "Europe/Berlin", int64(1774742400))
	}
	f.Fuzz(func(t *testing.T, text, zone string, seconds int64) {
		w, err := schedule.ParseWhen(text, zone)
		if err != nil {
			return
		}
		from := time.Unix(seconds%(1<<33), 0)
		if next := w.Next(from, from); !next.IsZero() && !next.After(from) {
			t.Errorf("%q in %q: %s is not after %s", text, zone, next, from)
		}
	})
}
