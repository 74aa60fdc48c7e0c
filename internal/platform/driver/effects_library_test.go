package driver_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"image"
	"image/png"
	"io"
	"net/http"
	"testing"

	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// picture is the file that the tests upload.
var picture = func() []byte {
	var file bytes.Buffer
	if err := png.Encode(&file, image.NewGray(image.Rect(0, 0, 3, 2))); err != nil {
		panic(err)
	}
	return file.Bytes()
}()

// announced are the arguments that start an upload of the picture; known are those that ask whether the vault has it.
var (
	pictureSum = func() string { sum := sha256.Sum256(picture); return hex.EncodeToString(sum[:]) }()
	announced  = fmt.Sprintf(`{"fileName":"dot.png","size":%d,"mimeType":"image/png","sha256":%q}`, len(picture), pictureSum)
	known      = fmt.Sprintf(`{"sha256":%q,"size":%d}`, pictureSum, len(picture))
	opened     = []step{{do: "uploads.init", args: announced}}
	uploaded   = []step{{do: "uploads.init", args: announced}, {do: "put", args: `{"uploadId":"$1.id","partNumber":1}`}}
)

// libraryEffects are the effects on the vault, its folders, uploads and release forms. Folder 5 is the creator's own.
var libraryEffects = effects{
	"vault.delete": {args: `{"mediaIds":["$media:3","$media:4"]}`, see: []observation{
		notFound("vault.get", `{"mediaId":"$media:3"}`),
		shows("vault.list", "{}", "items[id=$media:3]", absent, "items[id=$media:4]", absent),
		shows("me.get", "{}", "mediaCount", plus(-2)),
		shows("posts.get", `{"postId":"$post:2"}`, "media[id=$media:3]", absent),
		returns("deleted", []string{"$media:3", "$media:4"}),
	}},
	"vaultFolders.create": {args: `{"name":"Tour 2027"}`, see: []observation{
		shows("vaultFolders.get", `{"folderId":"$.id"}`, "", theResult, "name", "Tour 2027", "isSystem", false, "counts.photo", 0),
		shows("vaultFolders.list", "{}", "items[id=$.id].name", "Tour 2027"),
	}},
	"vaultFolders.rename": {args: `{"folderId":"$folder:6","name":"The red dress"}`, see: []observation{
		shows("vaultFolders.get", `{"folderId":"$folder:6"}`, "", theResult, "name", "The red dress"),
		shows("vaultFolders.list", `{"query":"the red"}`, "items[id=$folder:6]", present),
	}},
	"vaultFolders.delete": {args: `{"folderId":"$folder:5"}`, see: []observation{
		notFound("vaultFolders.get", `{"folderId":"$folder:5"}`),
		notFound("vaultFolders.listMedia", `{"folderId":"$folder:5"}`),
		shows("vaultFolders.list", "{}", "items[id=$folder:5]", absent),
		shows("vault.get", `{"mediaId":"$media:3"}`, "folderIds.#", plus(-1), "id", still{"$media:3"}),
	}},
	"vaultFolders.addMedia": {args: `{"folderId":"$folder:7","mediaIds":["$media:3","$media:8"]}`, see: []observation{
		shows("vaultFolders.listMedia", `{"folderId":"$folder:7"}`, "items[id=$media:3]", present, "items[id=$media:8].type", "video"),
		shows("vaultFolders.get", `{"folderId":"$folder:7"}`, "counts.photo", plus(1), "counts.video", plus(1)),
		shows("vault.list", `{"folderId":"$folder:7"}`, "items[id=$media:8]", present),
		returns("added", 2),
	}},
	"vaultFolders.removeMedia": {args: `{"folderId":"$folder:5","mediaIds":["$media:3","$media:4"]}`, see: []observation{
		shows("vaultFolders.listMedia", `{"folderId":"$folder:5"}`, "items[id=$media:3]", absent),
		shows("vault.get", `{"mediaId":"$media:3"}`, "folderIds.#", plus(-1)),
		returns("removed", 1),
	}},

	"uploads.init": {args: announced, see: []observation{
		shows("uploads.get", `{"uploadId":"$.id"}`, "", theResult, "state", "open", "parts", []any{}, "mediaId", nil, "partSize", 5<<20),
		shows("uploads.getPartUrl", `{"uploadId":"$.id","partNumber":1}`, "url", present, "expiresAt", present),
	}},
	"uploads.complete": {
		first: uploaded, args: `{"uploadId":"$1.id","parts":[{"number":1,"etag":"$2.etag"}]}`,
		see: []observation{
			shows("uploads.get", `{"uploadId":"$1.id"}`, "state", "ready", "mediaId", "$.mediaId"),
			shows("vault.get", `{"mediaId":"$.mediaId"}`, "state", "ready", "type", "photo", "width", 3, "height", 2, "sizeBytes", len(picture)),
			shows("vault.list", `{"limit":1}`, "items.0.id", "$.mediaId"),
			shows("uploads.check", known, "exists", true, "mediaId", "$.mediaId"),
			shows("me.get", "{}", "mediaCount", plus(1)),
			emits("mediaReady", "media.id", "$.mediaId", "uploadId", "$1.id"),
		},
		also: comesBack,
	},
	"uploads.complete/in two parts": {
		first: []step{
			{do: "uploads.init", args: `{"fileName":"film.mp4","size":5242890,"mimeType":"video/mp4"}`},
			{do: "put", args: `{"uploadId":"$1.id","partNumber":2,"size":10}`}, {do: "put", args: `{"uploadId":"$1.id","partNumber":1,"size":5242880}`},
			{do: "uploads.get", args: `{"uploadId":"$1.id"}`},
		},
		args: `{"uploadId":"$1.id"}`,
		see: []observation{
			shows("uploads.get", `{"uploadId":"$1.id"}`, "state", "ready", "parts.0.size", still{5242880}, "parts.1.size", still{10}, "parts.1.etag", still{"$2.etag"}),
			shows("vault.get", `{"mediaId":"$.mediaId"}`, "state", "ready", "type", "video", "sizeBytes", 5242890),
		},
	},
	"uploads.complete/of another file": {
		first: []step{
			{do: "uploads.init", args: `{"fileName":"dot.png","size":10,"mimeType":"image/png"}`},
			{do: "put", args: `{"uploadId":"$1.id","partNumber":1,"size":10}`},
		},
		args: `{"uploadId":"$1.id"}`, wait: []string{"mediaFailed"},
		see: []observation{
			shows("uploads.get", `{"uploadId":"$1.id"}`, "state", "failed", "error", "The content of the file does not match its type."),
			shows("vault.get", `{"mediaId":"$.mediaId"}`, "state", "failed"),
			emits("mediaFailed", "uploadId", "$1.id", "error", "The content of the file does not match its type."),
		},
	},
	"uploads.fromUrl": {args: `{"url":"https://files.example.com/summer.jpg"}`, see: []observation{
		shows("uploads.get", `{"uploadId":"$.id"}`, "state", "ready", "mediaId", "$.mediaId"),
		shows("vault.list", `{"query":"summer.jpg"}`, "items[id=$.mediaId].state", "ready"),
		emits("mediaReady", "media.id", "$.mediaId", "uploadId", "$.id"),
	}},
	"uploads.abort": {first: uploaded, args: `{"uploadId":"$1.id"}`, see: []observation{
		shows("uploads.get", `{"uploadId":"$1.id"}`, "state", "aborted", "parts", []any{}),
		shows("uploads.getPartUrl", `{"uploadId":"$1.id","partNumber":1}`, "refused", "conflict"),
	}},
	"uploads.abort/before a part came": {first: opened, args: `{"uploadId":"$1.id"}`, see: []observation{
		shows("uploads.get", `{"uploadId":"$1.id"}`, "state", "aborted"),
	}},

	"releaseForms.createInvite": {args: `{"name":"Robin Hale","email":"robin@example.com"}`, see: []observation{
		shows("releaseForms.list", `{"status":"pending"}`, "items[name=Robin Hale].email", "robin@example.com", "items[name=Robin Hale].expiresAt", "$.expiresAt"),
		returns("url", present),
	}},
	"releaseForms.tagMedia": {
		args: `{"mediaId":"$media:3","releaseFormIds":["$form:1","$form:2"]}`, unseen: "the catalog's Media does not show its release forms",
		see:    []observation{returns("id", "$media:3")},
		inside: func(c *world.Creator, id func(string) int64) any { return c.Media().Get(id("$media:3")).Forms },
		want:   []string{"$form:1", "$form:2"},
	},
}

// comesBack downloads the uploaded file and compares it.
func comesBack(t *testing.T, s *effectFixture) {
	t.Helper()
	address := at(s.read("vault.getDownloadUrl", s.fill(`{"mediaId":"$.mediaId","quality":"source"}`)), "url")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprint(address), nil)
	must.OK(t, err)
	resp, err := http.DefaultClient.Do(req)
	must.OK(t, err)
	defer resp.Body.Close()
	if data, err := io.ReadAll(resp.Body); err != nil || !bytes.Equal(data, picture) {
		t.Errorf("%d bytes came back of %d: %v", len(data), len(picture), err)
	}
}
