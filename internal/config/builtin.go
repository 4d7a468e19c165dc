package config

import (
	"cmp"
	"fmt"
	"maps"
	"net/mail"
	"net/url"
	"slices"
	"time"
)

// Builtin is the section "builtin": Toolroom's own tools, in packs. A pack without a section
// of its own is on with its defaults, unless Off is set.
type Builtin struct {
	// Off turns off all packs that have no section of their own.
	Off     bool            `yaml:"off,omitempty"`
	File    *BuiltinFile    `yaml:"file,omitempty"`
	Shell   *BuiltinShell   `yaml:"shell,omitempty"`
	Process *BuiltinPack    `yaml:"process,omitempty"`
	Web     *BuiltinWeb     `yaml:"web,omitempty"`
	Git     *BuiltinPack    `yaml:"git,omitempty"`
	Memory  *BuiltinPack    `yaml:"memory,omitempty"`
	Cron    *BuiltinCron    `yaml:"cron,omitempty"`
	Message *BuiltinMessage `yaml:"message,omitempty"`
	Browser *BuiltinBrowser `yaml:"browser,omitempty"`
	// Sessions configures the pack sessions.
	Sessions *BuiltinPack `yaml:"sessions,omitempty"`
	// The packs below are off unless they have a section.
	Storage *BuiltinStorage `yaml:"storage,omitempty"`
	K8s     *BuiltinK8s     `yaml:"k8s,omitempty"`
	Media   *BuiltinMedia   `yaml:"media,omitempty"`
	Google  *BuiltinGoogle  `yaml:"google,omitempty"`
}

// BuiltinPack is the section of a pack without settings.
type BuiltinPack struct {
	Off bool `yaml:"off,omitempty"`
}

// BuiltinFile configures the pack file.
type BuiltinFile struct {
	Off bool `yaml:"off,omitempty"`
	// Roots are the folders that tools may use, relative to the config file (the working
	// folder of the process). The packs file, shell, process and git use them.
	Roots []string `yaml:"roots,omitempty"`
}

// BuiltinShell configures the packs shell and process.
type BuiltinShell struct {
	Off bool `yaml:"off,omitempty"`
	// Runtime is where commands run: process (the default, a sandbox of this machine), host
	// (no sandbox), or a sandbox driver that can show folders of this machine, such as docker
	// or docker/runsc.
	Runtime string `yaml:"runtime,omitempty"`
	// Image is the image of a driver that has a choice of them (its default).
	Image string `yaml:"image,omitempty"`
	// Network is none (the default), guarded (a proxy that applies the rules of egress is the
	// only way out) or host. The runtime host has always that of this machine.
	Network string `yaml:"network,omitempty"`
	// Egress are rules beside those of the whole config, for guarded.
	Egress Egress `yaml:"egress,omitempty"`
	// Env are additional environment variables, which may name secrets.
	Env map[string]string `yaml:"env,omitempty"`
	// Memory and Disk limit a command in the sandbox, in bytes (2 GiB, 1 GiB), and PIDs its
	// processes (512).
	Memory int64 `yaml:"memory,omitempty"`
	Disk   int64 `yaml:"disk,omitempty"`
	PIDs   int   `yaml:"pids,omitempty"`
	// Home is the most bytes of a caller's home folder, which commands keep (10 GiB).
	Home int64 `yaml:"home,omitempty"`
}

// Values of BuiltinShell.Runtime.
const (
	ShellProcess = "process"
	ShellHost    = "host"
)

// BuiltinWeb configures the pack web.
type BuiltinWeb struct {
	Off bool `yaml:"off,omitempty"`
	// Robots makes web:fetch respect robots.txt.
	Robots bool `yaml:"robots,omitempty"`
	// Cache is how long web:fetch keeps a page (5 min).
	Cache time.Duration `yaml:"cache,omitempty"`
	// MaxBytes is the maximum size of a response (10 MiB).
	MaxBytes int64 `yaml:"max_bytes,omitempty"`
	// Egress adds rules for web:fetch to the section "egress" for all.
	Egress Egress `yaml:"egress,omitempty"`
	// Search selects the provider of web:search and web:search.news.
	Search *BuiltinSearch `yaml:"search,omitempty"`
}

// BuiltinSearch is a provider of web search.
type BuiltinSearch struct {
	// Provider is brave, tavily, searxng or exa.
	Provider string `yaml:"provider,omitempty"`
	// URL is the address of the provider; it has a default except for searxng.
	URL string `yaml:"url,omitempty"`
	// Key is the key of the provider, usually a reference to a secret.
	Key string `yaml:"key,omitempty"`
}

// BuiltinCron configures the pack cron.
type BuiltinCron struct {
	Off bool `yaml:"off,omitempty"`
	// Timezone is the time zone of schedules that name none (UTC).
	Timezone string `yaml:"timezone,omitempty"`
}

// BuiltinMessage configures the pack message.
type BuiltinMessage struct {
	Off bool `yaml:"off,omitempty"`
	// Channels are the ways to send messages, by name.
	Channels map[string]BuiltinChannel `yaml:"channels,omitempty"`
}

// BuiltinChannel is a way to send messages.
type BuiltinChannel struct {
	// Provider is webhook, slack, telegram, matrix or smtp.
	Provider string `yaml:"provider,omitempty"`
	// URL is the address of the provider; it has a default for slack and telegram. That of
	// a mail server is smtp://host:port, or smtps://host:port with TLS from the start.
	URL string `yaml:"url,omitempty"`
	// Key is the token of the bot or user, or the password for mail, usually a reference to
	// a secret.
	Key string `yaml:"key,omitempty"`
	// Recipients are those that a message may go to; the first is the default, and "*"
	// permits any.
	Recipients []string `yaml:"recipients,omitempty"`
	// User logs in to the mail server, and From is the sender.
	User string `yaml:"user,omitempty"`
	From string `yaml:"from,omitempty"`
}

// BuiltinBrowser configures the pack browser.
type BuiltinBrowser struct {
	Off bool `yaml:"off,omitempty"`
	// Path is the path of Chromium, if it is not in PATH.
	Path string `yaml:"path,omitempty"`
	// Idle is how long an unused browser lives (10 min), and Max the maximum number of
	// browsers (4).
	Idle time.Duration `yaml:"idle,omitempty"`
	Max  int           `yaml:"max,omitempty"`
	// MaxDownload is the maximum size of a download in bytes (100 MiB).
	MaxDownload int64 `yaml:"max_download,omitempty"`
	// Egress adds rules for browsers to the section "egress" for all.
	Egress Egress `yaml:"egress,omitempty"`
}

// On reports whether a pack is on, where fallback says whether packs without a section are.
func (b Builtin) On(pack string, fallback bool) bool {
	fallback = fallback && !b.Off
	switch pack {
	case "file":
		return packOn(b.File, fallback, func(s *BuiltinFile) bool { return s.Off })
	case "shell":
		return packOn(b.Shell, fallback, func(s *BuiltinShell) bool { return s.Off })
	case "process":
		return packOn(b.Process, fallback, func(s *BuiltinPack) bool { return s.Off })
	case "web":
		return packOn(b.Web, fallback, func(s *BuiltinWeb) bool { return s.Off })
	case "git":
		return packOn(b.Git, fallback, func(s *BuiltinPack) bool { return s.Off })
	case "browser":
		return packOn(b.Browser, fallback, func(s *BuiltinBrowser) bool { return s.Off })
	case "memory":
		return packOn(b.Memory, fallback, func(s *BuiltinPack) bool { return s.Off })
	case "sessions":
		return packOn(b.Sessions, fallback, func(s *BuiltinPack) bool { return s.Off })
	case "k8s":
		return packOn(b.K8s, false, func(s *BuiltinK8s) bool { return s.Off })
	case "media":
		return packOn(b.Media, false, func(s *BuiltinMedia) bool { return s.Off })
	case "google":
		return packOn(b.Google, false, func(s *BuiltinGoogle) bool { return s.Off })
	case "storage":
		return packOn(b.Storage, false, func(s *BuiltinStorage) bool { return s.Off })
	case "cron":
		return packOn(b.Cron, fallback, func(s *BuiltinCron) bool { return s.Off })
	case "message":
		return packOn(b.Message, fallback, func(s *BuiltinMessage) bool { return s.Off })
	}
	return false
}

func packOn[T any](section *T, fallback bool, off func(*T) bool) bool {
	if section == nil {
		return fallback
	}
	return !off(section)
}

func (c checker) checkBuiltin(b Builtin, programs map[string]DriverProgram) {
	if s := b.Shell; s != nil {
		c.checkSandboxRuntime("builtin.shell.runtime", s.Runtime, programs, ShellHost)
		here := slices.Contains([]string{"", ShellProcess, ShellHost}, s.Runtime)
		if here && s.Image != "" {
			c.addProblem("builtin.shell.image", "the runtime "+cmp.Or(s.Runtime, ShellProcess)+" has no images", "remove it, or choose a runtime that has images, such as docker")
		}
		if !here && s.Network == NetworkHost {
			c.addProblem("builtin.shell.network", "commands in "+s.Runtime+" cannot have the network of this machine", "write none or guarded")
		}
		c.checkEgressWithoutNetwork("builtin.shell.egress", s.Egress, "builtin.shell.network determines the network of commands")
		c.checkEnv("builtin.shell.env", s.Env)
		c.requireOneOfOrEmpty("builtin.shell.network", s.Network, NetworkNone, NetworkGuarded, NetworkHost)
	}
	c.checkStorage(b.Storage)
	c.checkMedia(b.Media)
	c.checkGoogle(b.Google)
	if s := b.Cron; s != nil && s.Timezone != "" {
		if _, err := time.LoadLocation(s.Timezone); err != nil || s.Timezone == "Local" {
			c.addProblem("builtin.cron.timezone", fmt.Sprintf("%q is not a time zone", s.Timezone), "write a name such as Europe/Berlin or UTC")
		}
	}
	if m := b.Message; m != nil {
		for _, name := range slices.Sorted(maps.Keys(m.Channels)) {
			c.checkChannel("builtin.message.channels."+name, m.Channels[name])
		}
	}
	if w := b.Browser; w != nil {
		c.checkEgressWithoutNetwork("builtin.browser.egress", w.Egress, "a browser has only the hosts that egress permits")
	}
	if w := b.Web; w != nil {
		c.checkEgressWithoutNetwork("builtin.web.egress", w.Egress, "web:fetch has only the hosts that egress permits")
		if s := w.Search; s != nil {
			c.checkReference("builtin.web.search.key", s.Key)
			c.requireOneOf("builtin.web.search.provider", s.Provider, "brave", "tavily", "searxng", "exa")
			if s.URL != "" {
				c.checkWebURL("builtin.web.search.url", s.URL)
			} else if s.Provider == "searxng" {
				c.addProblem("builtin.web.search.url", "it is missing", "write the address of the SearXNG server")
			}
		}
	}
}

func (c checker) checkChannel(key string, b BuiltinChannel) {
	c.checkReference(key+".key", b.Key)
	c.requireOneOf(key+".provider", b.Provider, "webhook", "slack", "telegram", "matrix", "smtp")
	if b.Provider == "smtp" {
		u, err := url.Parse(b.URL)
		if err != nil || u.Scheme != "smtp" && u.Scheme != "smtps" || u.Hostname() == "" || u.User != nil {
			c.addProblem(key+".url", "it is not the address of a mail server", "write smtp://mail.example.com:587 or smtps://mail.example.com:465, and the login in user and key")
		}
		if _, err := mail.ParseAddress(b.From); err != nil {
			c.addProblem(key+".from", "it is not an address", "write the sender, such as agent@example.com")
		}
		return
	}
	switch {
	case b.URL != "":
		c.checkWebURL(key+".url", b.URL)
	case b.Provider == "webhook":
		c.addProblem(key+".url", "it is missing", "write the address that takes the messages")
	case b.Provider == "matrix":
		c.addProblem(key+".url", "it is missing", "write the address of the home server, such as https://matrix.org")
	}
}
