package approval

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
)

// KeyBytes is the length of [DeskOptions.Key].
const KeyBytes = 32

// claims are what a link says. Nobody but the holder of the desk's key can make
// one.
type claims struct {
	Approval string    `json:"a"`
	Expires  time.Time `json:"e"`
	// Hook is the webhook that a link was sent to.
	Hook string `json:"h,omitempty"`
}

// Link is a token that lets its bearer answer a as a webhook's approver.
func (d *Desk) Link(a *Approval, hook string) string {
	return d.seal(claims{Approval: a.ID, Expires: a.Expires, Hook: hook})
}

// OpenLink is the approval that a token of Link stands for, and the name of the
// webhook. It answers once: see [Approval.Decide].
func (d *Desk) OpenLink(ctx context.Context, token string) (a *Approval, hook string, err error) {
	c, err := d.open(token)
	if err != nil {
		return nil, "", err
	}
	a, err = d.Get(ctx, c.Approval)
	return a, c.Hook, err
}

func (d *Desk) seal(c claims) string {
	c.Expires = c.Expires.UTC()
	// Claims are text and a time: encoding cannot fail.
	body, _ := json.Marshal(c)
	return encode(body) + "." + encode(d.mac(body))
}

func (d *Desk) open(token string) (claims, error) {
	var c claims
	text, sum, _ := strings.Cut(token, ".")
	body, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return c, badToken("cannot be read")
	}
	mac, err := base64.RawURLEncoding.DecodeString(sum)
	if err != nil || !hmac.Equal(mac, d.mac(body)) {
		return c, badToken("was not given by this server, or was altered")
	}
	if err := json.Unmarshal(body, &c); err != nil {
		return c, badToken("cannot be read")
	}
	if !d.opts.Now().Before(c.Expires) {
		return c, &toolroom.Error{
			Code: toolroom.CodeApprovalExpired, Phase: toolroom.PhaseApproval,
			Message: "the question expired at " + c.Expires.Format(time.RFC3339), Hint: "repeat the call to ask again",
		}
	}
	return c, nil
}

func (d *Desk) mac(body []byte) []byte {
	// One key has several uses; the prefix is this one's.
	h := hmac.New(sha256.New, d.opts.Key)
	h.Write([]byte("toolroom link 1\n"))
	h.Write(body)
	return h.Sum(nil)
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func badToken(what string) error {
	return &toolroom.Error{
		Code: toolroom.CodeDenied, Phase: toolroom.PhaseApproval,
		Message: "the link " + what,
		Hint:    "open the one that the message has, or answer with: toolroom approve",
	}
}
