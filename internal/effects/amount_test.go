package effects_test

import (
	"testing"

	"github.com/toolroom/toolroom/internal/effects"
)

func TestAmountsHaveOneForm(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"12.50 eur": "12.5 EUR", "3": "3", "0.1 USD": "0.1 USD", "007 EUR": "7 EUR", "1.0000001 EUR": "1.000001 EUR", " 5 EUR ": "5 EUR",
		"": "", "-1 EUR": "", "+1 EUR": "", "1e3 EUR": "", "0x10 EUR": "", "1,5 EUR": "", "١ EUR": "", "1 E R": "", "EUR 1": "", "NaN": "",
		".5 EUR": "", "99999999999999 EUR": "", "1 ЕUR": "",
	} {
		amount, ok := effects.ParseAmount(text)
		if ok != (want != "") || ok && amount.String() != want {
			t.Errorf("%q is %q (%v), want %q", text, amount, ok, want)
		}
	}
}
