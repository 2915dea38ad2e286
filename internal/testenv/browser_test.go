package testenv

import (
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a page asks for, what it says, and how it looks is noticed, so that a test that sees nothing of it has seen something.
func TestBrowserNoticesWhatAPageDoes(t *testing.T) {
	t.Parallel()
	const page = `<!doctype html><style>@media (prefers-color-scheme: dark) { p { color: rgb(1, 2, 3) } }</style><p>here</p>
		<img src="http://elsewhere.test/picture.png"><script>console.log("said"); undefined.nothing</script>`
	path := filepath.Join(t.TempDir(), "page.html")
	require.NoError(t, os.WriteFile(path, []byte(page), 0o600))
	b := NewBrowser(t)
	address := (&url.URL{Scheme: "file", Path: path}).String()
	p := b.Open(address, Screen{Width: 390, Height: 844, Phone: true, Dark: true})
	require.Equal(t, []string{address, "http://elsewhere.test/picture.png"}, p.Requests())
	require.Equal(t, []string{"GET http://elsewhere.test/picture.png"}, b.Asked())
	require.GreaterOrEqual(t, len(p.Complaints()), 3, "the log, the exception, the picture: %s", p.Complaints())
	var color string
	p.Eval(`getComputedStyle(document.querySelector("p")).color`, &color)
	require.Equal(t, "rgb(1, 2, 3)", color)
	picture := filepath.Join(t.TempDir(), "page.png")
	p.Screenshot(picture)
	head := make([]byte, 8)
	f, err := os.Open(picture)
	require.NoError(t, err)
	_, err = f.Read(head)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.Equal(t, "\x89PNG\r\n\x1a\n", string(head))
}
