package clients

// Self is Toolroom as a client reaches it: a command, or a URL with a bearer token.
type Self struct {
	Command string
	Args    []string
	URL     string
	Token   string
}

// The entries below have their members in the order of the clients' documentation.

type plainEntry struct {
	Type    string            `json:"type,omitempty"`
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	URL     string            `json:"url,omitempty"`
	HTTPURL string            `json:"httpUrl,omitempty"`
	Server  string            `json:"serverUrl,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Tools   []string          `json:"tools,omitempty"`
}

func headersOf(s Self) map[string]string {
	if s.Token == "" {
		return nil
	}
	return map[string]string{"Authorization": "Bearer " + s.Token}
}

// bare is an entry without a type; url is the member for the URL.
func bare(url string) func(Self) any {
	return func(s Self) any {
		e := plainEntry{Command: s.Command, Args: s.Args, Headers: headersOf(s)}
		switch url {
		case "httpUrl":
			e.HTTPURL = s.URL
		case "serverUrl":
			e.Server = s.URL
		default:
			e.URL = s.URL
		}
		return e
	}
}

// typed is an entry with a type.
func typed(stdio, http string) func(Self) any {
	return func(s Self) any {
		e := plainEntry{Type: stdio, Command: s.Command, Args: s.Args, URL: s.URL, Headers: headersOf(s)}
		if s.URL != "" {
			e.Type = http
		}
		return e
	}
}

func copilotEntry(s Self) any {
	e := typed("local", "http")(s).(plainEntry)
	e.Tools = []string{"*"}
	return e
}

func opencodeEntry(s Self) any {
	type entry struct {
		Type    string            `json:"type"`
		Command []string          `json:"command,omitempty"`
		URL     string            `json:"url,omitempty"`
		Headers map[string]string `json:"headers,omitempty"`
		Enabled bool              `json:"enabled"`
	}
	if s.URL != "" {
		return entry{Type: "remote", URL: s.URL, Headers: headersOf(s), Enabled: true}
	}
	return entry{Type: "local", Command: append([]string{s.Command}, s.Args...), Enabled: true}
}

func codexEntry(s Self) any {
	return struct {
		Command string            `toml:"command,omitempty"`
		Args    []string          `toml:"args,omitempty"`
		URL     string            `toml:"url,omitempty"`
		Headers map[string]string `toml:"http_headers,omitempty"`
	}{s.Command, s.Args, s.URL, headersOf(s)}
}

func gooseEntry(s Self) any {
	type entry struct {
		Type    string            `yaml:"type"`
		Name    string            `yaml:"name"`
		Enabled bool              `yaml:"enabled"`
		Command string            `yaml:"cmd,omitempty"`
		Args    []string          `yaml:"args,omitempty"`
		URI     string            `yaml:"uri,omitempty"`
		Headers map[string]string `yaml:"headers,omitempty"`
		Timeout int               `yaml:"timeout"`
	}
	e := entry{Type: "stdio", Name: EntryName, Enabled: true, Command: s.Command, Args: s.Args, Timeout: 300}
	if s.URL != "" {
		e.Type, e.URI, e.Headers = "streamable_http", s.URL, headersOf(s)
	}
	return e
}
