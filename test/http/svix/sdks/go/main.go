// The story, told by the Go SDK. javascript/story.ts tells the same, step by step.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	svix "github.com/svix/svix-webhooks/go"
	"github.com/svix/svix-webhooks/go/models"
	"github.com/svix/svix-webhooks/go/utils"
)

var (
	receiver = os.Getenv("RECEIVER_URL")
	run      = os.Getenv("RUN")
	client   = connect(os.Getenv("BREAKWATER_KEY"))
	ctx      = context.Background()

	// Every character that a uid may have.
	app       = run + "-ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz.0123456789"
	orderPaid = run + ".order.paid"
	payload   = map[string]any{"total": 12.5, "note": "Grüße 👋"}
)

const otherSecret = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

func main() {
	step("health", func() { must(client.Health.Get(ctx)) })
	applications()
	eventTypes()
	endpoints()
	messages()
	secrets()
	attempts()
	services()
	failures()
}

func connect(token string) *svix.Svix {
	server := ok(url.Parse(os.Getenv("BREAKWATER_URL")))
	return ok(svix.New(token, &svix.SvixOptions{ServerUrl: server}))
}

// Runs the function as a step and prints its outcome.
func step(name string, function func()) {
	outcome, detail := "passed", ""
	func() {
		defer func() {
			failure := recover()
			if failure == nil {
				return
			}
			outcome, detail = "failed", fmt.Sprint(failure)
			var refusal *svix.Error
			if err, is := failure.(error); is && errors.As(err, &refusal) {
				detail = fmt.Sprint(refusal.Status(), " ", string(refusal.Body()))
				if refusal.Status() == http.StatusNotImplemented {
					outcome = "unsupported"
				}
			}
		}()
		function()
	}()
	line, _ := json.Marshal(struct {
		Step    string `json:"step"`
		Outcome string `json:"outcome"`
		Detail  string `json:"detail"`
	}{name, outcome, detail})
	fmt.Println(string(line))
}

// Ends the step where there is an error.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func ok[T any](value T, err error) T {
	must(err)
	return value
}

func ptr[T any](value T) *T {
	return &value
}

func equal(actual, expected any) {
	if !reflect.DeepEqual(actual, expected) {
		panic(fmt.Sprintf("expected %#v, got %#v", expected, actual))
	}
}

// What the SDK returns, which must be an answer of the API with the status.
func refused[T any](_ T, err error) func(status int) string {
	return func(status int) string {
		var refusal *svix.Error
		if !errors.As(err, &refusal) {
			panic(fmt.Sprintf("expected %d, got %v", status, err))
		}
		equal(refusal.Status(), status)
		return string(refusal.Body())
	}
}

// Asks until there is an answer, for up to 20 seconds.
func until[T any](ask func() []T) []T {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if found := ask(); len(found) > 0 {
			return found
		}
	}
	panic("not within 20 seconds")
}

type request struct {
	Headers map[string]string
	Body    string
}

func urlOf(path string) string {
	return fmt.Sprintf("%s/%s/%s", receiver, run, path)
}

// The requests that have come to the path, once there are so many.
func arrived(path string, count int) []request {
	response := ok(http.Get(fmt.Sprintf("%s/received?path=/%s/%s&count=%d", receiver, run, path, count)))
	defer response.Body.Close()
	body := ok(io.ReadAll(response.Body))
	if response.StatusCode != http.StatusOK {
		panic(string(body))
	}
	var requests []request
	must(json.Unmarshal(body, &requests))
	return requests
}

func isVerified(secret, body string, headers http.Header) bool {
	return ok(svix.NewWebhook(secret)).Verify([]byte(body), headers) == nil
}

func headersOf(r request, prefix string) http.Header {
	headers := http.Header{}
	for name, value := range r.Headers {
		if strings.HasPrefix(name, prefix) {
			headers.Set(name, value)
		}
	}
	return headers
}

// All names of a list, page by page.
func allPages(list func(iterator *string) (names []string, next *string, done bool)) []string {
	names, next, done := list(nil)
	for !done {
		var more []string
		more, next, done = list(next)
		names = append(names, more...)
	}
	slices.Sort(names)
	return names
}

func namesOf[T any](entries []T, nameOf func(T) string) []string {
	var names []string
	for _, entry := range entries {
		names = append(names, nameOf(entry))
	}
	return names
}

func count(names []string, name string) int {
	return len(names) - len(slices.DeleteFunc(slices.Clone(names), func(each string) bool { return each == name }))
}

func applications() {
	name := run + strings.Repeat("x", 256-len(run))
	metadata := map[string]string{"a": "b"}

	step("application: create", func() {
		made := ok(client.Application.Create(ctx, models.ApplicationIn{Name: name, Uid: &app}, nil))
		equal([]any{made.Name, *made.Uid, len(made.Metadata)}, []any{name, app, 0})
	})
	step("application: get or create", func() {
		found := ok(client.Application.GetOrCreate(ctx, models.ApplicationIn{Name: name, Uid: &app}, nil))
		equal(found.Id, ok(client.Application.Get(ctx, app)).Id)
	})
	step("application: list in pages", func() {
		for _, uid := range []string{run + "-1", run + "-2"} {
			ok(client.Application.Create(ctx, models.ApplicationIn{Name: uid, Uid: &uid}, nil))
		}
		uids := allPages(func(iterator *string) ([]string, *string, bool) {
			options := svix.ApplicationListOptions{Limit: ptr(uint64(2)), Iterator: iterator}
			page := ok(client.Application.List(ctx, &options))
			uidOf := func(each models.ApplicationOut) string { return *each.Uid }
			return namesOf(page.Data, uidOf), page.Iterator, page.Done
		})
		for _, uid := range []string{app, run + "-1", run + "-2"} {
			equal(count(uids, uid), 1)
		}
	})
	step("application: get by id and uid", func() {
		found := ok(client.Application.Get(ctx, app))
		equal(ok(client.Application.Get(ctx, found.Id)), found)
	})
	step("application: update", func() {
		change := models.ApplicationIn{Name: "Updated", Uid: &app, Metadata: &metadata}
		updated := ok(client.Application.Update(ctx, app, change))
		equal([]any{updated.Name, *updated.Uid, updated.Metadata}, []any{"Updated", app, metadata})
	})
	step("application: patch", func() {
		patched := ok(client.Application.Patch(ctx, app, models.ApplicationPatch{Name: ptr("Patched")}))
		equal([]any{patched.Name, *patched.Uid, patched.Metadata}, []any{"Patched", app, metadata})
	})
	step("application: delete", func() {
		must(client.Application.Delete(ctx, run+"-1"))
		refused(client.Application.Get(ctx, run+"-1"))(404)
	})
}

func eventTypes() {
	examples := []any{map[string]any{"total": 1.0}}
	schemas := map[string]any{"1": map[string]any{"type": "object", "examples": examples}}

	step("event type: create", func() {
		input := models.EventTypeIn{Name: orderPaid, Description: "Paid", Schemas: &schemas}
		made := ok(client.EventType.Create(ctx, input, nil))
		equal([]any{made.Name, made.Description, *made.Schemas}, []any{orderPaid, "Paid", schemas})
	})
	step("event type: list in pages", func() {
		for _, name := range []string{run + ".1", run + ".2"} {
			ok(client.EventType.Create(ctx, models.EventTypeIn{Name: name}, nil))
		}
		names := allPages(func(iterator *string) ([]string, *string, bool) {
			options := svix.EventTypeListOptions{Limit: ptr(uint64(2)), Iterator: iterator}
			page := ok(client.EventType.List(ctx, &options))
			nameOf := func(each models.EventTypeOut) string { return each.Name }
			return namesOf(page.Data, nameOf), page.Iterator, page.Done
		})
		for _, name := range []string{orderPaid, run + ".1", run + ".2"} {
			equal(count(names, name), 1)
		}
	})
	step("event type: get", func() {
		found := ok(client.EventType.Get(ctx, orderPaid))
		equal([]any{found.Name, *found.Archived, *found.Schemas}, []any{orderPaid, false, schemas})
	})
	step("event type: update", func() {
		change := models.EventTypeUpdate{Description: "Updated", Schemas: &schemas}
		updated := ok(client.EventType.Update(ctx, orderPaid, change))
		equal([]any{updated.Description, *updated.Schemas}, []any{"Updated", schemas})
	})
	step("event type: patch", func() {
		change := models.EventTypePatch{Description: ptr("Patched")}
		patched := ok(client.EventType.Patch(ctx, orderPaid, change))
		equal([]any{patched.Description, *patched.Schemas}, []any{"Patched", schemas})
	})
	step("event type: archive and delete", func() {
		must(client.EventType.Delete(ctx, run+".1", nil))
		equal(*ok(client.EventType.Get(ctx, run+".1")).Archived, true)
		must(client.EventType.Delete(ctx, run+".1", &svix.EventTypeDeleteOptions{Expunge: ptr(true)}))
		refused(client.EventType.Get(ctx, run+".1"))(404)
	})
}

func newEndpoint(uid string, types ...string) models.EndpointIn {
	return models.EndpointIn{Uid: &uid, Url: urlOf(uid), FilterTypes: types}
}

func endpoints() {
	step("endpoint: create", func() {
		input := newEndpoint("orders", orderPaid)
		input.Description = ptr("Orders")
		input.Metadata = &map[string]string{"a": "b"}
		input.Headers = &map[string]string{"x-one": "1"}
		made := ok(client.Endpoint.Create(ctx, app, input, nil))
		equal([]any{*made.Uid, made.Description, made.Metadata}, []any{"orders", "Orders", *input.Metadata})
		equal([]any{made.Url, made.FilterTypes}, []any{urlOf("orders"), []string{orderPaid}})
	})
	step("endpoint: list in pages", func() {
		for _, uid := range []string{"second", "third"} {
			ok(client.Endpoint.Create(ctx, app, newEndpoint(uid, "none"), nil))
		}
		uids := allPages(func(iterator *string) ([]string, *string, bool) {
			options := svix.EndpointListOptions{Limit: ptr(uint64(2)), Iterator: iterator}
			page := ok(client.Endpoint.List(ctx, app, &options))
			uidOf := func(each models.EndpointOut) string { return *each.Uid }
			return namesOf(page.Data, uidOf), page.Iterator, page.Done
		})
		equal(uids, []string{"orders", "second", "third"})
	})
	step("endpoint: get by id and uid", func() {
		found := ok(client.Endpoint.Get(ctx, app, "orders"))
		equal(ok(client.Endpoint.Get(ctx, app, found.Id)), found)
	})
	step("endpoint: patch", func() {
		change := models.EndpointPatch{Description: ptr("Patched"), ThrottleRate: utils.NewNullable(uint16(5))}
		patched := ok(client.Endpoint.Patch(ctx, app, "second", change))
		equal([]any{patched.Description, *patched.ThrottleRate}, []any{"Patched", uint16(5)})
		equal([]any{*patched.Uid, patched.FilterTypes}, []any{"second", []string{"none"}})
	})
	step("endpoint: update", func() {
		change := models.EndpointUpdate{Url: urlOf("updated"), Uid: ptr("second"), FilterTypes: []string{"none"}}
		updated := ok(client.Endpoint.Update(ctx, app, "second", change))
		equal([]any{updated.Url, updated.Description}, []any{urlOf("updated"), ""})
		equal([]any{updated.ThrottleRate, updated.FilterTypes}, []any{(*uint16)(nil), []string{"none"}})
	})
	step("endpoint: disable and enable", func() {
		ok(client.Endpoint.Patch(ctx, app, "second", models.EndpointPatch{Disabled: ptr(true)}))
		equal(*ok(client.Endpoint.Get(ctx, app, "second")).Disabled, true)
		enabled := ok(client.Endpoint.Patch(ctx, app, "second", models.EndpointPatch{Disabled: ptr(false)}))
		equal(*enabled.Disabled, false)
	})
	step("endpoint: set headers", func() {
		headers := map[string]string{"x-one": "1", "x-two": "2"}
		must(client.Endpoint.UpdateHeaders(ctx, app, "orders", models.EndpointHeadersIn{Headers: headers}))
	})
	step("endpoint: patch headers", func() {
		headers := map[string]string{"x-three": "3"}
		change := models.EndpointHeadersPatchIn{Headers: headers, DeleteHeaders: []string{"x-one"}}
		must(client.Endpoint.PatchHeaders(ctx, app, "orders", change))
	})
	step("endpoint: get headers", func() {
		shown := ok(client.Endpoint.GetHeaders(ctx, app, "orders"))
		slices.Sort(shown.Sensitive)
		equal([]any{len(shown.Headers), shown.Sensitive}, []any{0, []string{"x-three", "x-two"}})
	})
	step("endpoint: get the secret", func() {
		equal(ok(client.Endpoint.GetSecret(ctx, app, "orders")).Key[:6], "whsec_")
	})
	step("endpoint: delete", func() {
		must(client.Endpoint.Delete(ctx, app, "third"))
		refused(client.Endpoint.Get(ctx, app, "third"))(404)
	})
}

func messages() {
	order := models.MessageIn{EventType: orderPaid, EventId: ptr("order-1"), Payload: payload, Tags: []string{"eu"}}
	withContent := &svix.MessageGetOptions{WithContent: ptr(true)}

	step("message: create", func() {
		made := ok(client.Message.Create(ctx, app, order, nil))
		equal([]any{made.EventType, *made.EventId, made.Tags}, []any{orderPaid, "order-1", []string{"eu"}})
	})
	step("message: a repeated eventId is refused", func() {
		refused(client.Message.Create(ctx, app, order, nil))(409)
	})
	step("message: list by tag", func() {
		other := models.MessageIn{EventType: "none.else", Payload: map[string]any{}, Tags: []string{"us"}}
		ok(client.Message.Create(ctx, app, other, nil))
		options := svix.MessageListOptions{Tag: ptr("eu"), WithContent: ptr(true)}
		found := ok(client.Message.List(ctx, app, &options)).Data
		equal(len(found), 1)
		equal([]any{*found[0].EventId, found[0].Payload}, []any{"order-1", payload})
	})
	step("message: get by id and eventId", func() {
		found := ok(client.Message.Get(ctx, app, "order-1", withContent))
		equal(found.Payload, payload)
		equal(ok(client.Message.Get(ctx, app, found.Id, withContent)), found)
	})
	step("webhook: verify what has arrived", func() {
		request := arrived("orders", 1)[0]
		key := ok(client.Endpoint.GetSecret(ctx, app, "orders")).Key
		var body map[string]any
		must(json.Unmarshal([]byte(request.Body), &body))
		equal(body, payload)
		equal([]any{request.Headers["x-two"], request.Headers["x-three"]}, []any{"2", "3"})
		equal(request.Headers["svix-id"], ok(client.Message.Get(ctx, app, "order-1", nil)).Id)
		for _, prefix := range []string{"svix-", "webhook-"} {
			headers := headersOf(request, prefix)
			equal([]any{prefix, isVerified(key, request.Body, headers)}, []any{prefix, true})
			equal([]any{prefix, isVerified(otherSecret, request.Body, headers)}, []any{prefix, false})
			equal([]any{prefix, isVerified(key, request.Body+" ", headers)}, []any{prefix, false})
		}
	})
	step("message: a raw payload", func() {
		ok(client.Endpoint.Create(ctx, app, newEndpoint("raw", run+".raw"), nil))
		raw := svix.NewMessageInRaw(run+".raw", "<a> 1 </a>", ptr("text/xml"))
		made := ok(client.Message.Create(ctx, app, *raw, nil))
		request := arrived("raw", 1)[0]
		equal([]any{request.Body, request.Headers["content-type"]}, []any{"<a> 1 </a>", "text/xml"})
		equal(ok(client.Message.Get(ctx, app, made.Id, withContent)).Id, made.Id)
	})
	step("message: channels", func() {
		endpoint := newEndpoint("west", run+".channel")
		endpoint.Channels = []string{"west"}
		equal(ok(client.Endpoint.Create(ctx, app, endpoint, nil)).Channels, []string{"west"})
		for _, channel := range []string{"east", "west"} {
			content := map[string]any{"channel": channel}
			message := models.MessageIn{EventType: run + ".channel", Payload: content, Channels: []string{channel}}
			ok(client.Message.Create(ctx, app, message, nil))
		}
		equal(arrived("west", 1)[0].Body, `{"channel":"west"}`)
		options := svix.MessageListOptions{Channel: ptr("east"), WithContent: ptr(true)}
		found := ok(client.Message.List(ctx, app, &options)).Data
		equal(len(found), 1)
		equal([]any{found[0].Channels, found[0].Payload["channel"]}, []any{[]string{"east"}, "east"})
	})
}

func secrets() {
	secret := func() string { return ok(client.Endpoint.GetSecret(ctx, app, "rotated")).Key }
	var former string

	step("endpoint: rotate the secret", func() {
		ok(client.Endpoint.Create(ctx, app, newEndpoint("rotated", run+".rotated"), nil))
		former = secret()
		must(client.Endpoint.RotateSecret(ctx, app, "rotated", models.EndpointSecretRotateIn{}, nil))
		equal(secret() == former, false)
	})
	step("webhook: verify by the old secret and the new", func() {
		message := models.MessageIn{EventType: run + ".rotated", Payload: payload}
		ok(client.Message.Create(ctx, app, message, nil))
		request := arrived("rotated", 1)[0]
		for _, key := range []string{former, secret()} {
			equal(isVerified(key, request.Body, headersOf(request, "")), true)
		}
	})
	step("endpoint: send an example", func() {
		ok(client.Endpoint.Create(ctx, app, newEndpoint("example"), nil))
		ok(client.Endpoint.SendExample(ctx, app, "example", models.EventExampleIn{EventType: orderPaid}, nil))
		equal(arrived("example", 1)[0].Body, `{"total":1}`)
	})
}

func attempts() {
	attemptsOfOrder := func() []models.MessageAttemptOut {
		message := ok(client.Message.Get(ctx, app, "order-1", nil))
		return ok(client.MessageAttempt.ListByMsg(ctx, app, message.Id, nil)).Data
	}

	step("attempt: list by message", func() {
		attempt := until(attemptsOfOrder)[0]
		equal(attempt.MsgId, ok(client.Message.Get(ctx, app, "order-1", nil)).Id)
		equal(attempt.EndpointId, ok(client.Endpoint.Get(ctx, app, "orders")).Id)
		equal([]any{attempt.Status, attempt.ResponseStatusCode}, []any{models.MESSAGESTATUS_SUCCESS, int16(204)})
	})
	step("attempt: list by endpoint", func() {
		equal(ok(client.MessageAttempt.ListByEndpoint(ctx, app, "orders", nil)).Data, attemptsOfOrder())
	})
	step("attempt: get", func() {
		attempt := attemptsOfOrder()[0]
		equal(*ok(client.MessageAttempt.Get(ctx, app, attempt.MsgId, attempt.Id, nil)), attempt)
	})
	step("attempt: endpoints of a message", func() {
		message := ok(client.Message.Get(ctx, app, "order-1", nil))
		found := ok(client.MessageAttempt.ListAttemptedDestinations(ctx, app, message.Id, nil)).Data
		equal(len(found), 1)
		equal([]any{*found[0].Uid, found[0].Status}, []any{"orders", models.MESSAGESTATUS_SUCCESS})
	})
	step("attempt: resend", func() {
		path := "gone-once"
		ok(client.Endpoint.Create(ctx, app, newEndpoint(path, run+".gone"), nil))
		message := ok(client.Message.Create(ctx, app, models.MessageIn{EventType: run + ".gone", Payload: payload}, nil))
		failed := svix.MessageAttemptListByEndpointOptions{Status: ptr(models.MESSAGESTATUS_FAIL)}
		until(func() []models.MessageAttemptOut {
			return ok(client.MessageAttempt.ListByEndpoint(ctx, app, path, &failed)).Data
		})
		// A receiver that is gone has been disabled.
		equal(*ok(client.Endpoint.Get(ctx, app, path)).Disabled, true)
		ok(client.Endpoint.Patch(ctx, app, path, models.EndpointPatch{Disabled: ptr(false)}))
		ok(client.MessageAttempt.Resend(ctx, app, message.Id, path, nil))
		requests := arrived(path, 2)
		equal(requests[1].Body, requests[0].Body)
	})
}

func services() {
	since := time.Now().Add(-time.Hour).UTC()
	var task string

	step("attempt: messages of an endpoint", func() {
		found := ok(client.MessageAttempt.ListAttemptedMessages(ctx, app, "orders", nil)).Data
		equal(len(found), 1)
		equal([]any{*found[0].EventId, found[0].Status}, []any{"order-1", models.MESSAGESTATUS_SUCCESS})
	})
	step("endpoint: counts", func() {
		options := svix.EndpointGetStatsOptions{Since: &since}
		stats := ok(client.Endpoint.GetStats(ctx, app, "gone-once", &options))
		equal(stats.Fail >= 0 && stats.Success >= 0, true)
	})
	step("endpoint: recover", func() {
		recovery := ok(client.Endpoint.Recover(ctx, app, "gone-once", models.RecoverIn{Since: since}, nil))
		equal(recovery.Task, models.BACKGROUNDTASKTYPE_ENDPOINT_RECOVER)
		task = recovery.Id
	})
	step("background task: list and get", func() {
		idOf := func(each models.BackgroundTaskOut) string { return each.Id }
		equal(count(namesOf(ok(client.BackgroundTask.List(ctx, nil)).Data, idOf), task), 1)
		equal(ok(client.BackgroundTask.Get(ctx, task)).Id, task)
	})
	step("message: precheck", func() {
		check := models.MessagePrecheckIn{EventType: run + ".raw"}
		equal(ok(client.Message.Precheck(ctx, app, check, nil)).Active, true)
	})
	step("event type: import OpenAPI", func() {
		post := map[string]any{"description": "Imported", "responses": map[string]any{}}
		webhooks := map[string]any{run + ".imported": map[string]any{"post": post}}
		spec := map[string]any{"openapi": "3.1.0", "webhooks": webhooks}
		ok(client.EventType.ImportOpenapi(ctx, models.EventTypeImportOpenApiIn{Spec: &spec}, nil))
		equal(ok(client.EventType.Get(ctx, run+".imported")).Description, "Imported")
	})
	step("operational webhook", func() {
		types := []string{"endpoint.disabled"}
		input := models.OperationalWebhookEndpointIn{Url: urlOf("operations"), FilterTypes: types}
		made := ok(client.OperationalWebhookEndpoint.Create(ctx, input, nil))
		found := ok(client.OperationalWebhookEndpoint.Get(ctx, made.Id))
		equal(found.FilterTypes, types)
		idOf := func(each models.OperationalWebhookEndpointOut) string { return each.Id }
		equal(count(namesOf(ok(client.OperationalWebhookEndpoint.List(ctx, nil)).Data, idOf), made.Id), 1)
		must(client.OperationalWebhookEndpoint.Delete(ctx, made.Id))
		refused(client.OperationalWebhookEndpoint.Get(ctx, made.Id))(404)
	})
	step("portal link", func() {
		link := ok(client.Authentication.AppPortalAccess(ctx, app, models.AppPortalAccessIn{}, nil))
		ok(url.ParseRequestURI(link.Url))
	})
}

func failures() {
	step("error: 404 for what there is not", func() {
		body := refused(client.Application.Get(ctx, "none"))(404)
		equal(body, `{"code":"not_found","detail":"There is no application none"}`)
	})
	step("error: 409 for a uid that is taken", func() {
		refused(client.Application.Create(ctx, models.ApplicationIn{Name: "Again", Uid: &app}, nil))(409)
	})
	step("error: 422 with the place of the fault", func() {
		body := refused(client.Endpoint.Create(ctx, app, models.EndpointIn{Url: "nowhere"}, nil))(422)
		var invalid struct{ Detail []struct{ Loc []string } }
		must(json.Unmarshal([]byte(body), &invalid))
		equal(invalid.Detail[0].Loc, []string{"body", "url"})
	})
	step("error: 401 for an unknown token", func() {
		refused(connect("testsk_none.eu").Application.List(ctx, nil))(401)
	})
	step("error: 501 names the route", func() {
		body := refused(client.Statistics.AggregateEventTypes(ctx))(501)
		equal(strings.Contains(body, "PUT /api/v1/stats/usage/event-types"), true)
	})
}
