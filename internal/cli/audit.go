package cli

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/receipt"
)

func (a *cli) auditCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "audit",
		Short: "Export, verify, redact and remove receipts",
		Args:  arguments(0, 0),
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.auditExportCommand(), a.auditVerifyCommand(), a.auditKeyCommand(), a.auditRedactCommand(), a.auditPruneCommand())
	return c
}

func (a *cli) auditExportCommand() *cobra.Command {
	var since, until, signKey, output string
	c := &cobra.Command{
		Use:   "export",
		Short: "Write receipts as signed JSON Lines",
		Example: `  toolroom audit export -o receipts.jsonl
  toolroom audit export --since 2026-01-01 --until 2026-02-01 > january.jsonl
  toolroom audit export --since 24h --sign-key auditor.pem -o day.jsonl`,
		Args: arguments(0, 0),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, _ []string) error {
			sel, err := parseSelection(since, until)
			if err != nil {
				return err
			}
			key, err := signingKey(r, signKey)
			if err != nil {
				return err
			}
			var m *receipt.Manifest
			export := func(out io.Writer) error {
				m, err = r.ExportReceipts(ctx, key, sel, out)
				return err
			}
			if output == "" {
				err = export(a.Out)
			} else {
				err = writeExport(output, export)
			}
			if err != nil {
				return err
			}
			a.screen.say("exported %s (%d to %d of %d), signed with key %s", count(m.Count, "receipt"), m.Before.Seq+1, m.Last.Seq, m.Head.Seq, receipt.Fingerprint(m.Key))
			return nil
		}),
	}
	f := c.Flags()
	f.StringVar(&since, "since", "", "calls started at or after: a date, a time or an age such as 24h")
	f.StringVar(&until, "until", "", "calls that started before")
	f.StringVar(&signKey, "sign-key", "", "Ed25519 key file in PEM (default: the key of this home)")
	f.StringVarP(&output, "output", "o", "", "file to create (default: stdout)")
	return c
}

// writeExport creates a file and fills it with write. If that fails, it removes the file,
// because a part of an export has no signature.
func writeExport(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return usage("toolroom audit export -o ANOTHER", "%s", err)
	}
	err = write(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

func signingKey(r *app.App, path string) (receipt.SigningKey, error) {
	if path == "" {
		return r.AuditKey()
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return receipt.SigningKey{}, usage("openssl genpkey -algorithm ed25519 -out "+path, "key file %s not found", path)
	}
	return receipt.OpenSigningKey(path)
}

// parseSelection parses a time range.
func parseSelection(since, until string) (sel receipt.Selection, err error) {
	if sel.Since, err = parseTime("--since", since); err != nil {
		return sel, err
	}
	sel.Until, err = parseTime("--until", until)
	return sel, err
}

// parseTime parses a date, a time or an age.
func parseTime(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return time.Now().Add(-ago), nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateTime, "2006-01-02 15:04", time.DateOnly} {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return at, nil
		}
	}
	return time.Time{}, usage(flag+" 2026-01-31, "+flag+" 24h", "%s %q is neither a time nor an age", flag, text)
}

func (a *cli) auditVerifyCommand() *cobra.Command {
	var keyFile, against string
	c := &cobra.Command{
		Use:   "verify [FILE]",
		Short: "Verify the receipts of this home or of an export",
		Example: `  toolroom audit verify
  toolroom audit verify --against january.jsonl
  toolroom audit verify january.jsonl --key toolroom.pub`,
		Args: arguments(0, 1),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case len(args) == 1 && against != "":
				return usage("toolroom audit verify --against FILE", "--against compares this home with an export; it takes no FILE")
			case len(args) == 1:
				return a.verifyExport(args[0], keyFile)
			case keyFile != "" && against == "":
				return usage("toolroom audit verify FILE --key KEY", "--key needs an export FILE")
			}
			return a.inRoom(c.Context(), func(r *app.App) error { return a.verifyHome(c.Context(), r, against, keyFile) })
		},
	}
	f := c.Flags()
	f.StringVar(&keyFile, "key", "", "public key of the exporter, in PEM (default: the key of this home)")
	f.StringVar(&against, "against", "", "earlier export that this home must match")
	a.jsonFlag(c, "print JSON")
	return c
}

func (a *cli) verifyHome(ctx context.Context, r *app.App, against, keyFile string) error {
	n, err := r.VerifyReceipts(ctx)
	if err != nil {
		a.screen.say("%s before this one verified", count(n, "receipt"))
		return err
	}
	verified := verifiedHome{Count: n}
	if against == "" {
		return show(a, verified, func(verifiedHome) error {
			return a.screen.printf("OK: %s, hash chain intact\n", count(n, "receipt"))
		})
	}
	report, _, err := a.readExport(against, keyFile)
	if err != nil {
		return err
	}
	if err := r.CheckReceiptsAgainst(ctx, report.Manifest); err != nil {
		return err
	}
	verified.Matches = report.Last.Seq
	return show(a, verified, func(verifiedHome) error {
		return a.screen.printf("OK: %s, hash chain intact, matches the export up to receipt %d\n", count(n, "receipt"), report.Last.Seq)
	})
}

// verifiedHome is what toolroom audit verify --json prints about an intact home.
type verifiedHome struct {
	Count int64 `json:"count"`
	// Matches is the number of the last receipt that is the same as in an earlier export.
	Matches int64 `json:"matches,omitempty"`
}

func (a *cli) verifyExport(path, keyFile string) error {
	report, trusted, err := a.readExport(path, keyFile)
	if err != nil {
		return err
	}
	if a.asJSON {
		return a.screen.json(report)
	}
	fingerprint := receipt.Fingerprint(report.Key)
	err = a.screen.printf("OK: %s (%d to %d), unchanged since the export at %s; signed with key %s\n",
		count(report.Count, "receipt"), report.Before.Seq+1, report.Last.Seq, formatTime(report.Made), fingerprint)
	if err != nil {
		return err
	}
	if len(report.Redacted) > 0 {
		a.screen.say("%s redacted", count(int64(len(report.Redacted)), "receipt"))
	}
	if len(report.Unexplained) > 0 {
		a.screen.say("receipts %s are redacted, but this file does not contain the record of the redaction", joinNumbers(report.Unexplained))
	}
	if !trusted {
		a.screen.say("the signature was verified with the key in the file itself: compare its fingerprint %s with the owner's, or pass --key", fingerprint)
	}
	return nil
}

// readExport verifies an export with the given key, else with the key of this home, else
// with the key in the file, which is then not trusted.
func (a *cli) readExport(path, keyFile string) (report *receipt.Report, trusted bool, err error) {
	key, err := a.publicKey(keyFile)
	if err != nil {
		return nil, false, err
	}
	in := a.In
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			// An export that is made now would compare the receipts with themselves.
			return nil, false, usage("name an export that was made before, with toolroom audit export -o FILE", "%s", err)
		}
		defer f.Close()
		in = f
	}
	report, err = receipt.Verify(bufio.NewReader(in), key)
	return report, key != nil, err
}

func (a *cli) publicKey(path string) (ed25519.PublicKey, error) {
	if path != "" {
		key, err := receipt.ReadPublicKey(path)
		if err != nil {
			return nil, usage("toolroom audit key > toolroom.pub", "%s", err)
		}
		return key, nil
	}
	own := filepath.Join(a.home, "audit.key")
	if _, err := os.Stat(own); err != nil {
		return nil, nil
	}
	key, err := receipt.OpenSigningKey(own)
	if err != nil {
		return nil, err
	}
	return key.Public(), nil
}

func joinNumbers(list []int64) string {
	text := ""
	for i, n := range list {
		if i > 0 {
			text += ", "
		}
		text += strconv.FormatInt(n, 10)
	}
	return text
}

func (a *cli) auditKeyCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "key",
		Short:   "Print the public key that verifies exports",
		Example: "  toolroom audit key > toolroom.pub",
		Args:    arguments(0, 0),
		RunE: a.withRoom(func(_ context.Context, r *app.App, _ []string) error {
			key, err := r.AuditKey()
			if err != nil {
				return err
			}
			a.screen.say("fingerprint %s", receipt.Fingerprint(key.Public()))
			return a.screen.printf("%s", receipt.PublicPEM(key.Public()))
		}),
	}
}

func (a *cli) auditRedactCommand() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:     "redact CALL",
		Short:   "Remove arguments, result and error from a receipt",
		Example: `  toolroom audit redact call_4xk2 --reason "personal data"`,
		Args:    arguments(1, 1),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			if reason == "" {
				return usage(`toolroom audit redact CALL --reason "personal data"`, "a reason is required; it is recorded")
			}
			notice, err := r.RedactReceipts(ctx, args[0], a.User+": "+reason, operator(), "cli")
			if err != nil {
				return err
			}
			return a.screen.printf("%s redacted; receipt %d records it\n", count(int64(len(notice.Redacts)), "receipt"), notice.Seq)
		}),
	}
	c.Flags().StringVar(&reason, "reason", "", "the reason, which is recorded")
	return c
}

func (a *cli) auditPruneCommand() *cobra.Command {
	var before string
	c := &cobra.Command{
		Use:     "prune --before TIME",
		Short:   "Remove old receipts and leave a signed checkpoint",
		Example: "  toolroom audit prune --before 2160h",
		Args:    arguments(0, 0),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, _ []string) error {
			at, err := parseTime("--before", before)
			if err != nil {
				return err
			}
			if at.IsZero() {
				return usage("toolroom audit prune --before 2160h", "--before TIME is required")
			}
			if at.After(time.Now()) {
				return usage("all receipts: toolroom audit prune --before 0s", "--before %s is in the future", before)
			}
			n, err := r.PruneReceipts(ctx, at)
			if err != nil {
				return err
			}
			return a.screen.printf("%s removed\n", count(n, "receipt"))
		}),
	}
	c.Flags().StringVar(&before, "before", "", "remove receipts of calls started before: a date, a time or an age such as 2160h")
	return c
}
