package config

import (
	"cmp"
	"fmt"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/secret"
)

// Approvals is the section "approvals": how people are asked about calls.
type Approvals struct {
	// TTL is how long a question stays open (15 min), Session how long an approval for a
	// session lasts at most (12 h), and Keep how long closed questions are kept (720 h).
	TTL     time.Duration `yaml:"ttl,omitempty"`
	Session time.Duration `yaml:"session,omitempty"`
	Keep    time.Duration `yaml:"keep,omitempty"`
	// MCPWait is how long a call of an MCP client waits for a person whom the client cannot
	// ask (20 s, at most limits.approval_wait). Then the call fails and names the question;
	// the same call runs once after the answer. Many clients give up after 60 s.
	MCPWait time.Duration `yaml:"mcp_wait,omitempty"`
	// Approvers may answer unless a rule names others; see [toolroom.ApprovalTerms.Approvers] for
	// the syntax.
	Approvers []string `yaml:"approvers,omitempty"`
	// Rules are tried in order. The first rule whose Match selects the tool applies.
	Rules []ApprovalRule `yaml:"rules,omitempty"`
	// Writes lists tools that write a file, so that approvers see a diff.
	Writes []FileWrite `yaml:"writes,omitempty"`
	// Webhooks are notified of each question.
	Webhooks []Webhook `yaml:"webhooks,omitempty"`
}

// ApprovalRule sets how people are asked about the tools that the pattern Match selects.
// Scopes are the possible answers: once, call, session, always.
type ApprovalRule struct {
	Match     string        `yaml:"match"`
	People    int           `yaml:"people,omitempty"`
	Approvers []string      `yaml:"approvers,omitempty"`
	Scopes    []string      `yaml:"scopes,omitempty"`
	TTL       time.Duration `yaml:"ttl,omitempty"`
}

// FileWrite declares that the tools that the pattern Match selects replace a file. Path and
// Content are the names of their arguments (path and content). Only files below the folder
// Root are read for a diff.
type FileWrite struct {
	Match   string `yaml:"match"`
	Root    string `yaml:"root"`
	Path    string `yaml:"path,omitempty"`
	Content string `yaml:"content,omitempty"`
}

// Webhook receives questions by POST at URL. PublicURL is the external address of this
// server: with it the message contains a link for answering, as the approver hook:NAME.
// Secret signs the messages.
type Webhook struct {
	Name      string            `yaml:"name"`
	URL       string            `yaml:"url"`
	PublicURL string            `yaml:"public_url,omitempty"`
	Headers   map[string]string `yaml:"headers,omitempty"`
	Secret    string            `yaml:"secret,omitempty"`
}

func (a *Approvals) fill() {
	a.TTL = cmp.Or(a.TTL, 15*time.Minute)
	a.Session = cmp.Or(a.Session, 12*time.Hour)
	a.Keep = cmp.Or(a.Keep, 720*time.Hour)
	a.MCPWait = cmp.Or(a.MCPWait, 20*time.Second)
	for i := range a.Writes {
		a.Writes[i].Path = cmp.Or(a.Writes[i].Path, "path")
		a.Writes[i].Content = cmp.Or(a.Writes[i].Content, "content")
	}
}

// Terms returns the terms of the first rule that selects a tool.
func (a *Approvals) Terms(matches func(pattern string) bool) toolroom.ApprovalTerms {
	for _, rule := range a.Rules {
		if !matches(rule.Match) {
			continue
		}
		t := toolroom.ApprovalTerms{People: rule.People, Approvers: rule.Approvers, TTL: rule.TTL}
		if len(t.Approvers) == 0 {
			t.Approvers = a.Approvers
		}
		for _, scope := range rule.Scopes {
			t.Scopes = append(t.Scopes, toolroom.ApprovalScope(scope))
		}
		return t
	}
	return toolroom.ApprovalTerms{Approvers: a.Approvers}
}

func (c checker) checkApprovals(a Approvals, groups map[string][]string) {
	approvers := func(key string, words []string) {
		for i, word := range words {
			if err := approval.CheckApprover(word); err != nil {
				c.addProblem(fmt.Sprintf("%s[%d]", key, i), err.Error(), "")
			}
		}
	}
	approvers("approvals.approvers", a.Approvers)
	var scopes []string
	for _, s := range approval.Scopes() {
		scopes = append(scopes, string(s))
	}
	for i, rule := range a.Rules {
		key := fmt.Sprintf("approvals.rules[%d]", i)
		c.checkPattern(key+".match", rule.Match, groups)
		approvers(key+".approvers", rule.Approvers)
		if rule.People > maxPeople {
			c.addProblem(key+".people", fmt.Sprintf("%d is not a number of people from 1 to %d", rule.People, maxPeople), "")
		}
		for j, scope := range rule.Scopes {
			c.requireOneOf(fmt.Sprintf("%s.scopes[%d]", key, j), scope, scopes...)
		}
	}
	for i, w := range a.Writes {
		key := fmt.Sprintf("approvals.writes[%d]", i)
		c.checkPattern(key+".match", w.Match, groups)
		if w.Root == "" {
			c.addProblem(key+".root", "the folder whose files may be read is missing", "for example root: .")
		}
	}
	names := map[string]bool{}
	for i, hook := range a.Webhooks {
		key := fmt.Sprintf("approvals.webhooks[%d]", i)
		c.checkNamespace(key+".name", hook.Name)
		if names[hook.Name] {
			c.addProblem(key+".name", quote(hook.Name)+" is used twice", "")
		}
		names[hook.Name] = true
		if len(secret.References(hook.URL)) > 0 {
			c.checkReference(key+".url", hook.URL)
		} else {
			c.checkWebURL(key+".url", hook.URL)
		}
		if hook.PublicURL != "" {
			c.checkWebURL(key+".public_url", hook.PublicURL)
		}
		c.checkHeaders(key+".headers", hook.Headers)
		c.checkReference(key+".secret", hook.Secret)
	}
}

// maxPeople is the maximum number of people who must approve one call.
const maxPeople = 10
