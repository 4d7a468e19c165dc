package memory

import (
	"context"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/identity"
)

// Notes gives other packs access to the files of the memory tools.
type Notes struct{ store store }

// Open returns the notes in a folder.
func Open(dir string) *Notes { return &Notes{store{dir}} }

// Save replaces the text of a namespace, or adds to it if add is set. It does not add a text
// that is there already, so a caller may repeat it.
func (n *Notes) Save(ctx context.Context, who toolroom.Identity, namespace, text string, add bool) error {
	return n.store.change(ctx, identity.Owner(who), namespace, func(old string) (string, error) {
		switch {
		case !add || old == "":
			return text, nil
		case strings.Contains(separated(old), separated(text)):
			return old, nil
		}
		return strings.TrimRight(old, "\n") + "\n\n" + text, nil
	})
}

// separated returns a text with an empty line before and after it.
func separated(text string) string { return "\n\n" + strings.Trim(text, "\n") + "\n\n" }

// Read returns the text of a namespace.
func (n *Notes) Read(who toolroom.Identity, namespace string) (string, error) {
	return n.store.read(identity.Owner(who), namespace)
}

// Has reports whether a namespace has a text.
func (n *Notes) Has(who toolroom.Identity, namespace string) bool {
	_, err := n.store.read(identity.Owner(who), namespace)
	return err == nil
}
