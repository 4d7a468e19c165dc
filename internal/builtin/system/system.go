// Package system provides the built-in tools about the room itself: system:info, schedules
// ([CronPack]) and sessions ([SessionPack]). A session consists of the variables that programs
// have left and of the calls made under its name.
package system

import (
	"context"
	"os"
	"runtime"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/internal/source/gofunc"
)

// Info is the result of system:info. It contains nothing secret: neither the user nor the
// environment.
type Info struct {
	Toolroom  string    `json:"toolroom" jsonschema:"version of Toolroom"`
	OS        string    `json:"os" jsonschema:"operating system, as Go names it"`
	Arch      string    `json:"arch" jsonschema:"processor architecture, as Go names it"`
	CPUs      int       `json:"cpus" jsonschema:"processors that this process may use"`
	Directory string    `json:"directory" jsonschema:"working directory of the server"`
	Time      time.Time `json:"time" jsonschema:"time on this machine"`
	Zone      string    `json:"zone" jsonschema:"time zone of this machine"`
}

// Tools returns the tools of this package.
func Tools(version string) ([]gofunc.Func, error) {
	yes, no := true, false
	info, err := gofunc.New(toolroom.Tool{
		ID:          toolroom.MustParseID("system:info"),
		Title:       "System information",
		Description: "Tell what machine this runs on: operating system, processors (CPUs), working directory, date and time.",
		Hints:       toolroom.Hints{ReadOnly: &yes, OpenWorld: &no},
		Tags:        []string{"system"},
		Keywords:    builtin.Keywords("system:info"),
	}, func(context.Context, struct{}) (Info, error) {
		directory, err := os.Getwd()
		if err != nil {
			return Info{}, err
		}
		now := time.Now()
		zone, _ := now.Zone()
		return Info{
			Toolroom: version, OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.GOMAXPROCS(0),
			Directory: directory, Time: now, Zone: zone,
		}, nil
	})
	if err != nil {
		return nil, err
	}
	info.Tool.Source = toolroom.SourceBuiltin
	return []gofunc.Func{info}, nil
}
