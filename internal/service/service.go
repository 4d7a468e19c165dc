// Package service runs the server as a service of the system: a unit of systemd, or a
// property list of launchd. [Service.Text] is its file, and [Manager] talks to systemd or
// launchd.
package service

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"path/filepath"
	"strings"
)

// Kinds of service managers.
const (
	Systemd = "systemd"
	Launchd = "launchd"
)

// Name is the name of the unit, and Label that of the job of launchd.
const (
	Name  = "toolroom.service"
	Label = "io.github.toolroom"
)

// marker marks a file that this package has written.
const marker = "Written by toolroom service install."

// Service describes one service.
type Service struct {
	Kind string
	// System is set for a service of the machine; otherwise it is one of the user.
	System bool
	// Command is the program with its arguments.
	Command []string
	// Folder is the working folder.
	Folder string
	// User is the account of a service of the machine.
	User string
	// SearchPath is the PATH of the service; empty means the manager's.
	SearchPath string
	// Log is the log file for launchd; systemd uses its journal.
	Log string
}

// IsOurs reports whether this package has written a file.
func IsOurs(text []byte) bool { return bytes.Contains(text, []byte(marker)) }

// Path returns the path of the service's file. home is the user's home folder, and userConfig
// the folder of the user's configs.
func (s Service) Path(home, userConfig string) string {
	switch {
	case s.Kind == Launchd && s.System:
		return "/Library/LaunchDaemons/" + Label + ".plist"
	case s.Kind == Launchd:
		return filepath.Join(home, "Library", "LaunchAgents", Label+".plist")
	case s.System:
		return "/etc/systemd/system/" + Name
	}
	return filepath.Join(userConfig, "systemd", "user", Name)
}

// Text returns the content of the service's file.
func (s Service) Text() (string, error) {
	for _, text := range append([]string{s.Folder, s.User, s.SearchPath, s.Log}, s.Command...) {
		if strings.ContainsAny(text, "\n\r\x00") {
			return "", fmt.Errorf("%q contains a line end", text)
		}
	}
	if s.Kind == Launchd {
		return s.plist(), nil
	}
	return s.unit(), nil
}

// unit returns a systemd unit; see systemd.service(5) and systemd.exec(5).
func (s Service) unit() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# %s", marker)
	line("[Unit]")
	line("Description=Toolroom, a gateway and runtime for agent tools")
	line("Documentation=https://github.com/toolroom/toolroom")
	if s.System {
		line("Wants=network-online.target")
		line("After=network-online.target")
	}
	line("")
	line("[Service]")
	if s.System {
		line("User=%s", specifiers(s.User))
	}
	line("WorkingDirectory=%s", specifiers(s.Folder))
	if s.SearchPath != "" {
		line(`Environment="PATH=%s"`, strings.NewReplacer("%", "%%", `\`, `\\`, `"`, `\"`).Replace(s.SearchPath))
	}
	quoted := make([]string, len(s.Command))
	for i, word := range s.Command {
		quoted[i] = quote(word)
	}
	line("ExecStart=%s", strings.Join(quoted, " "))
	line("ExecReload=/bin/kill -HUP $MAINPID")
	line("Restart=on-failure")
	line("TimeoutStopSec=30")
	line("KillMode=mixed")
	line("# Sandboxes limit memory and CPU with cgroups of their own.")
	line("Delegate=yes")
	line("UMask=0077")
	line("")
	line("[Install]")
	if s.System {
		line("WantedBy=multi-user.target")
	} else {
		line("WantedBy=default.target")
	}
	return b.String()
}

func specifiers(text string) string { return strings.ReplaceAll(text, "%", "%%") }

// quote quotes a word for a systemd command line.
func quote(word string) string {
	word = strings.NewReplacer("%", "%%", "$", "$$", `\`, `\\`, `"`, `\"`).Replace(word)
	if word == "" || strings.ContainsAny(word, " \t'\";") {
		return `"` + word + `"`
	}
	return word
}

// plist returns a launchd property list; see launchd.plist(5).
func (s Service) plist() string {
	var b strings.Builder
	text := func(value string) string {
		var escaped bytes.Buffer
		_ = xml.EscapeText(&escaped, []byte(value)) // a buffer takes all
		return "<string>" + escaped.String() + "</string>"
	}
	b.WriteString(xml.Header)
	b.WriteString(`<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">` + "\n")
	fmt.Fprintf(&b, "<!-- %s -->\n<plist version=\"1.0\">\n<dict>\n", marker)
	pair := func(key, value string) { fmt.Fprintf(&b, "  <key>%s</key>\n  %s\n", key, value) }
	pair("Label", text(Label))
	b.WriteString("  <key>ProgramArguments</key>\n  <array>\n")
	for _, word := range s.Command {
		b.WriteString("    " + text(word) + "\n")
	}
	b.WriteString("  </array>\n")
	pair("WorkingDirectory", text(s.Folder))
	if s.SearchPath != "" {
		pair("EnvironmentVariables", "<dict><key>PATH</key>"+text(s.SearchPath)+"</dict>")
	}
	if s.System {
		pair("UserName", text(s.User))
	}
	pair("RunAtLoad", "<true/>")
	b.WriteString("  <key>KeepAlive</key>\n  <dict>\n    <key>SuccessfulExit</key>\n    <false/>\n  </dict>\n")
	pair("Umask", "<integer>63</integer>") // 0077
	pair("ExitTimeOut", "<integer>30</integer>")
	pair("StandardErrorPath", text(s.Log))
	pair("StandardOutPath", text(s.Log))
	b.WriteString("</dict>\n</plist>\n")
	return b.String()
}
