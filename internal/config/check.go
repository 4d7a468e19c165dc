package config

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/reserved"
	"github.com/toolroom/toolroom/internal/secret"
)

// checker validates the values of keys. It need not check for negative numbers and durations,
// because the decoder rejects them.
type checker struct {
	*decoder
	// decodeProblems are the mistakes that were found while decoding.
	decodeProblems []Problem
}

// addProblem records a mistake at a key, or at the nearest existing key above it. It ignores
// keys that could not be decoded and keys above them, because what seems to be missing
// there may be the mistyped part.
func (c checker) addProblem(key, reason, hint string) {
	for _, p := range c.decodeProblems {
		if rest, ok := strings.CutPrefix(p.Key, key); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return
		}
	}
	at := position{1, 1}
	for above := key; above != ""; above = above[:max(0, strings.LastIndexAny(above, ".["))] {
		if p, ok := c.positions[above]; ok {
			at = p
			break
		}
	}
	c.add(at, key, reason, hint)
}

func (c checker) checkConfig(config *Config) {
	groups := config.Tools.AllGroups()
	c.checkServer(config.Server, groups)
	c.checkStore(config.Store)
	c.checkPolicy(config.Layers())
	c.checkRules(config.Policy)
	c.checkSpending(config.Policy.Spending, groups)
	c.checkExpose("expose", config.Expose, groups)
	c.checkSets(config.Sets, groups)
	c.checkSearch(config.Search)
	c.requireOneOf("cli.mode", config.CLI.Mode, "disabled", "allowlist", "ambient")
	for i, program := range config.CLI.Allow {
		if program == "" || strings.ContainsAny(program, " \t\n*") {
			c.addProblem(fmt.Sprintf("cli.allow[%d]", i), quote(program)+" is not the name of a program", "for example git")
		}
	}
	c.checkCode(config.Code)
	c.checkLimits(config.Limits, groups)
	c.checkApprovals(config.Approvals, groups)
	c.checkReceipts(config.Receipts, groups)
	c.checkReleases(config.Releases)
	c.checkQuota("results", config.Results)
	c.checkQuota("artifacts", config.Artifacts)
	c.checkEgress("egress", config.Egress)
	c.checkSecrets(config)
	c.checkTrust(config)
	c.checkBuiltin(config.Builtin, config.Code.Runtimes.Programs)
	for _, name := range slices.Sorted(maps.Keys(config.Sources)) {
		if why, is := reserved.Reason(name); is {
			c.addProblem("sources."+name, fmt.Sprintf("the namespace %s is reserved: %s", quote(name), why), "call the source "+reserved.Alternative(name))
		}
		c.checkSource("sources."+name, name, config.Sources[name], config.Code.Runtimes.Programs)
	}
}

func (c checker) checkExpose(key string, e Expose, groups map[string][]string) {
	c.requireOneOf(key+".mode", e.Mode, "auto", "direct", "search", "code")
	c.requireOneOfOrEmpty(key+".names", e.Names, "scoped", "plain")
	c.checkPatterns(key+".direct", e.Direct, groups)
	c.checkPatterns(key+".search", e.Search, groups)
	c.checkPatterns(key+".hidden", e.Hidden, groups)
}

// maxSetName keeps the address of a set short.
const maxSetName = 64

func (c checker) checkSets(sets map[string]Set, groups map[string][]string) {
	for _, name := range slices.Sorted(maps.Keys(sets)) {
		key := "sets." + name
		if (toolroom.ID{Namespace: name, Name: name}).Validate() != nil || len(name) > maxSetName || strings.Trim(name, ".") == "" {
			c.addProblem(key, quote(name)+" is not the name of a tool set: it needs 1 to 64 characters of A-Z a-z 0-9 _ . -", "for example review")
		}
		c.checkExpose(key+".expose", sets[name].Expose, groups)
		if sets[name].Expose.Names != "" {
			c.addProblem(key+".expose.names", "tools have the same names in all sets", "set expose.names")
		}
	}
}

func (c checker) checkServer(s Server, groups map[string][]string) {
	if _, port, err := net.SplitHostPort(s.Listen); err != nil {
		c.addProblem("server.listen", quote(s.Listen)+" is not host:port", "for example 127.0.0.1:7070")
	} else if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		c.addProblem("server.listen", fmt.Sprintf("the port %s is not a number from 0 to 65535", quote(port)), "for example 127.0.0.1:7070")
	}
	c.requireOneOf("server.auth.required", s.Auth.Required, "auto", "always", "never")
	if s.URL != "" {
		c.checkWebURL("server.url", s.URL)
	}
	if s.Auth.OAuth != nil {
		c.checkOAuth("server.auth.oauth", s, *s.Auth.OAuth, groups)
	}
	if s.Auth.Login != nil {
		c.checkLogin("server.auth.login", s, *s.Auth.Login)
	}
	for i, host := range s.Hosts {
		if host == "" || strings.ContainsAny(host, "/:*[]@ ") && net.ParseIP(host) == nil {
			c.addProblem(fmt.Sprintf("server.hosts[%d]", i), quote(host)+" is not the name of a host", "for example tools.example.com, without scheme and port")
		}
	}
	for i, origin := range s.Origins {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != origin {
			c.addProblem(fmt.Sprintf("server.origins[%d]", i), quote(origin)+" is not an origin", "for example https://example.com, without a path")
		}
	}
	if (s.TLS.Cert == "") != (s.TLS.Key == "") {
		c.addProblem("server.tls", "cert and key must be set together", "")
	}
}

func (c checker) checkStore(s Store) {
	scheme, rest, _ := strings.Cut(s.URL, ":")
	ok := scheme == "sqlite" && rest != "" && !strings.HasPrefix(rest, "//") ||
		(scheme == "postgres" || scheme == "postgresql") && strings.HasPrefix(rest, "//")
	if !ok {
		// The URL may contain a password, so the message does not show it.
		c.addProblem("store.url", "unknown kind of store", "write sqlite:toolroom.db")
	}
}

func (c checker) checkPolicy(p policy.Config) {
	_, err := policy.Compile(p)
	if err == nil {
		return
	}
	joined, _ := err.(interface{ Unwrap() []error })
	for _, err := range joined.Unwrap() {
		problem, _ := errors.AsType[*policy.Problem](err)
		key := problem.Key
		for name, skill := range p.Skills {
			// Policy names what a skill may do alike, whether it is here or in the skill's manifest.
			if rest, ok := strings.CutPrefix(key, "tools.skills."+name+"."); ok && skill.Manifest == "" {
				key = "tools.skills." + name + ".permissions." + rest
				break
			}
		}
		c.addProblem(key, problem.Err.Error(), "")
	}
}

func (c checker) checkPattern(key, text string, groups map[string][]string) {
	if _, err := policy.ParsePattern(text, groups); err != nil {
		c.addProblem(key, err.Error(), "")
	}
}

func (c checker) checkPatterns(key string, texts []string, groups map[string][]string) {
	for i, text := range texts {
		c.checkPattern(fmt.Sprintf("%s[%d]", key, i), text, groups)
	}
}

func (c checker) checkLimits(l Limits, groups map[string][]string) {
	if l.Timeout > l.MaxTimeout {
		c.addProblem("limits.timeout", fmt.Sprintf("%s is more than max_timeout, %s", l.Timeout, l.MaxTimeout), "")
	}
	if l.Retry.Base > l.Retry.Max {
		c.addProblem("limits.retry.base", fmt.Sprintf("%s is more than max, %s", l.Retry.Base, l.Retry.Max), "")
	}
	if l.Cache.TTL > maxCacheTTL {
		c.addProblem("limits.cache.ttl", fmt.Sprintf("%s is more than %s", l.Cache.TTL, maxCacheTTL), "")
	}
	c.checkPatterns("limits.cache.tools", l.Cache.Tools, groups)
}

func (c checker) checkQuota(key string, q Quota) {
	if q.EntryBytes > q.TotalBytes {
		c.addProblem(key+".entry_bytes", fmt.Sprintf("%d is more than total_bytes, %d", q.EntryBytes, q.TotalBytes), "")
	}
}

func (c checker) requireOneOf(key, value string, known ...string) {
	if !slices.Contains(known, value) {
		c.addProblem(key, fmt.Sprintf("%s is not one of %s", quote(value), strings.Join(known, ", ")), hintNearest(value, known))
	}
}

// requireOneOfOrEmpty is oneOf for a key that may be empty.
func (c checker) requireOneOfOrEmpty(key, value string, known ...string) {
	if value != "" {
		c.requireOneOf(key, value, known...)
	}
}

// hintNearest returns "" if no known name is near: the reason already lists them.
func hintNearest(value string, known []string) string {
	if hint := didYouMean(value, known); strings.HasPrefix(hint, "did") {
		return hint
	}
	return ""
}

func (c checker) checkWebURL(key, text string) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		// A URL may contain a token, so the message does not show it.
		c.addProblem(key, "it is not an http or https URL", "for example https://example.com/mcp")
	}
}

func (c checker) checkNamespace(key, name string) {
	if (toolroom.ID{Namespace: name, Name: name}).Validate() != nil {
		c.addProblem(key, quote(name)+" is not a name: it needs 1 to 128 characters of A-Z a-z 0-9 _ . -", "")
	}
}

func (c checker) checkHeaders(key string, headers map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		at := key + "." + name
		if strings.Trim(name, tokenChars) != "" || name == "" {
			c.addProblem(at, quote(name)+" is not the name of a header", "for example Authorization")
		}
		if strings.ContainsAny(headers[name], "\r\n\x00") {
			c.addProblem(at, "a header must be one line", "")
		}
		c.checkReference(at, headers[name])
		if http.CanonicalHeaderKey(name) == "Host" {
			c.addProblem(at, "the header Host is set by the URL", "remove it")
		}
	}
}

// tokenChars are the characters of a header name (RFC 9110, 5.6.2).
const tokenChars = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

func (c checker) checkEnv(key string, env map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		at := key + "." + name
		if name == "" || strings.ContainsAny(name, "=\x00") {
			c.addProblem(at, quote(name)+" is not the name of a variable", "for example GITHUB_TOKEN")
		}
		if strings.Contains(env[name], "\x00") {
			c.addProblem(at, "a variable must not contain a zero byte", "")
		}
		c.checkReference(at, env[name])
	}
}

// checkReference checks the secret references in a value. Messages do not show the value,
// because it may be a plaintext secret.
func (c checker) checkReference(key, value string) {
	for _, ref := range secret.References(value) {
		if _, err := secret.ParseRef(ref); err != nil {
			e := toolroom.AsError(err)
			c.addProblem(key, e.Message, e.Hint)
		}
	}
}

func (c checker) checkReferences(key string, values map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		c.checkReference(key+"."+name, values[name])
	}
}
