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

// claims are what a sealed token says. Nobody but the holder of the desk's key
// can make one, and none is good for anything but its own purpose.
type claims struct {
	Purpose  string    `json:"p"`
	Approval string    `json:"a"`
	Digest   string    `json:"d"`
	Expires  time.Time `json:"e"`
	// Hook is the webhook that a link was sent to.
	Hook string `json:"h,omitempty"`
}

// The purposes of sealed tokens.
const (
	purposeState = "state"
	purposeLink  = "link"
)

// State is a token for a client that is asked about a: it comes back with the
// answer and shows that this very call was asked about. See [Desk.OpenState].
func (d *Desk) State(a *Approval) string {
	return d.seal(claims{Purpose: purposeState, Approval: a.ID, Digest: a.Digest, Expires: a.Expires})
}

// OpenState is the approval that a token of State stands for, if it is about the
// call that digest names, which is made of tool, arguments and caller. A token
// that was made up, altered, is of another call or caller, or is over, is an
// error and no consent.
func (d *Desk) OpenState(ctx context.Context, token, digest string) (*Approval, error) {
	c, err := d.open(token, purposeState)
	if err != nil {
		return nil, err
	}
	if c.Digest != digest {
		return nil, badToken("was given for another call")
	}
	return d.Get(ctx, c.Approval)
}

// Link is a token that lets its bearer answer a as a webhook's approver.
func (d *Desk) Link(a *Approval, hook string) string {
	return d.seal(claims{Purpose: purposeLink, Approval: a.ID, Digest: a.Digest, Expires: a.Expires, Hook: hook})
}

// OpenLink is the approval that a token of Link stands for, and the name of the
// webhook. It answers once: see [Approval.Decide].
func (d *Desk) OpenLink(ctx context.Context, token string) (a *Approval, hook string, err error) {
	c, err := d.open(token, purposeLink)
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

func (d *Desk) open(token, purpose string) (claims, error) {
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
	if err := json.Unmarshal(body, &c); err != nil || c.Purpose != purpose {
		return c, badToken("was given for something else")
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
	h := hmac.New(sha256.New, d.opts.Key)
	h.Write(body)
	return h.Sum(nil)
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func badToken(what string) error {
	return &toolroom.Error{
		Code: toolroom.CodeDenied, Phase: toolroom.PhaseApproval,
		Message: "the answer does not count: what it refers to " + what,
		Hint:    "repeat the call without an answer, to be asked anew",
	}
}
