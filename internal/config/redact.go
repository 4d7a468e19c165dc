package config

import (
	"bytes"
	"net/url"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/toolroom/toolroom/internal/pattern"
	"github.com/toolroom/toolroom/internal/secret"
)

// hiddenValue stands for a value that seems to be a secret.
const hiddenValue = "(hidden)"

// Redacted returns a config as the tree of its JSON. What seems to be a secret in plain text
// is hidden; references to secrets are not.
func Redacted(c *Config) (map[string]any, error) {
	text, err := yaml.Dump(c)
	if err != nil {
		return nil, err
	}
	var tree any
	if err := yaml.Load(text, &tree); err != nil {
		return nil, err
	}
	out, _ := redact(tree, nil).(map[string]any)
	if out == nil {
		out = map[string]any{}
	}
	return out, nil
}

// RedactedSource is [Redacted] for one source.
func RedactedSource(s Source) (map[string]any, error) {
	tree, err := Redacted(&Config{Sources: map[string]Source{"x": s}})
	if err != nil {
		return nil, err
	}
	sources, _ := tree["sources"].(map[string]any)
	one, _ := sources["x"].(map[string]any)
	return one, nil
}

// HasHidden reports whether a section in JSON has values that [Redacted] has hidden, which say
// nothing of what was there.
func HasHidden(section []byte) bool { return bytes.Contains(section, []byte(hiddenValue+`"`)) }

// redact returns a tree without secrets. The last of path is the key of the value.
func redact(tree any, path []string) any {
	at := func(key string) []string { return append(path[:len(path):len(path)], key) }
	switch tree := tree.(type) {
	case map[string]any:
		out := make(map[string]any, len(tree))
		for key, value := range tree {
			out[key] = redact(value, at(key))
		}
		return out
	case []any:
		out := make([]any, len(tree))
		flag := ""
		for i, item := range tree {
			word, _ := item.(string)
			isFlag := strings.HasPrefix(word, "-")
			if isFlag {
				flag = ""
			}
			out[i] = redact(item, at(flag))
			flag = ""
			if isFlag && !strings.Contains(word, "=") {
				flag = strings.TrimLeft(word, "-") // the word after --token is one
			}
		}
		return out
	case string:
		return redactText(path, tree)
	}
	return tree
}

var (
	// attachedPassword is an argument such as -pSECRET, which database clients take. A word of
	// letters is another flag.
	attachedPassword = pattern.Lazy(`^(-p)(\S*[^a-z\s-]\S*)$`)
	// portLike is what -p means for other programs.
	portLike = pattern.Lazy(`^[0-9.:/]+(tcp|udp)?$`)
	// loginInAddress is an address without scheme such as USER:PASSWORD@HOST.
	loginInAddress = pattern.Lazy(`^((?:[\w-]+=)?[^\s:@/]+:)[^\s@/]+(@[^\s@]+)$`)
)

func redactText(path []string, value string) string {
	key := ""
	if path[0] == "sources" { // elsewhere, keys such as approvals.session are no names of secrets
		key = path[len(path)-1]
	}
	if len(secret.References(value)) > 0 || value == "" {
		return value
	}
	if LooksSecret(key, value) || holdsCredential(path, value) {
		return hiddenValue
	}
	if at := strings.IndexAny(value, "=:"); at > 0 { // --key=…, KEY=… after -e, NAME: … after --header
		name := value[:at]
		if (strings.HasPrefix(name, "-") || path[0] == "sources") && LooksSecret(strings.TrimLeft(name, "-"), strings.TrimSpace(value[at+1:])) {
			return value[:at+1] + hiddenValue
		}
	}
	if part := attachedPassword().FindStringSubmatch(value); part != nil && path[0] == "sources" && !portLike().MatchString(part[2]) {
		return part[1] + hiddenValue
	}
	if part := loginInAddress().FindStringSubmatch(value); part != nil {
		return part[1] + hiddenValue + part[2]
	}
	if u, err := url.Parse(value); err == nil && u.Host != "" && u.RawQuery != "" {
		u.RawQuery = "" // it may hold a key
		return u.String() + "?" + hiddenValue
	}
	return value
}
