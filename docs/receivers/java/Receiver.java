// A complete receiver for Breakwater's webhooks. Java 17 or later, with only the JDK.
//
//   WEBHOOK_SECRET=whsec_… java Receiver.java
//   WEBHOOK_JWKS=https://breakwater.example.com/v1/destinations/dst_…/jwks.json java Receiver.java
//
// The first verifies HMAC-SHA256 with the destination's secret, the second ed25519 with its public keys.

import com.sun.net.httpserver.Headers;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.MessageDigest;
import java.security.PublicKey;
import java.security.Signature;
import java.security.spec.X509EncodedKeySpec;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.regex.Pattern;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

public class Receiver {
    static final Duration TOLERANCE = Duration.ofMinutes(5);
    static final Duration REMEMBERED = Duration.ofDays(7);
    static final int MAX_BODY_BYTES = 1024 * 1024;

    /** The answer to a refused request. */
    static class Refused extends Exception {
        private static final long serialVersionUID = 1;
        final int status;

        Refused(int status, String message) {
            super(message);
            this.status = status;
        }
    }

    interface Verifier {
        /** Whether one of the signatures is of this content. */
        boolean isSigned(byte[] content, String signatures) throws Refused, GeneralSecurityException;
    }

    /** Throws unless the request was signed less than five minutes ago. The body is its raw bytes. */
    static void verify(Headers headers, byte[] body, Verifier verifier) throws Refused, GeneralSecurityException {
        String id = headers.getFirst("webhook-id");
        String timestamp = headers.getFirst("webhook-timestamp");
        String signatures = headers.getFirst("webhook-signature");
        if (id == null || timestamp == null || signatures == null)
            throw new Refused(401, "a webhook header is missing");
        if (!timestamp.matches("[0-9]{1,12}") || !isRecent(Instant.ofEpochSecond(Long.parseLong(timestamp))))
            throw new Refused(401, "the timestamp is too old or too new");
        byte[] start = (id + "." + timestamp + ".").getBytes(StandardCharsets.UTF_8);
        byte[] content = new byte[start.length + body.length];
        System.arraycopy(start, 0, content, 0, start.length);
        System.arraycopy(body, 0, content, start.length, body.length);
        if (!verifier.isSigned(content, signatures)) throw new Refused(401, "no signature matches");
    }

    static boolean isRecent(Instant at) {
        return Duration.between(at, Instant.now()).abs().compareTo(TOLERANCE) <= 0;
    }

    /** The decoded signatures of a version. */
    static List<byte[]> signaturesOf(String version, String signatures) {
        List<byte[]> decoded = new ArrayList<>();
        for (String one : signatures.split(" ")) {
            if (!one.startsWith(version + ",")) continue;
            try {
                decoded.add(Base64.getDecoder().decode(one.substring(version.length() + 1)));
            } catch (IllegalArgumentException e) {
                // It is not base64, so it is not a signature.
            }
        }
        return decoded;
    }

    record HmacVerifier(byte[] secret) implements Verifier {
        /** There is one signature for each secret that is in force. MessageDigest.isEqual takes constant time. */
        public boolean isSigned(byte[] content, String signatures) throws GeneralSecurityException {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(secret, "HmacSHA256"));
            byte[] expected = mac.doFinal(content);
            return signaturesOf("v1", signatures).stream().anyMatch(bytes -> MessageDigest.isEqual(bytes, expected));
        }
    }

    static class Ed25519Verifier implements Verifier {
        /** The bytes before the 32 bytes in the DER form of a public key (RFC 8410). */
        static final String DER_START = "302a300506032b6570032100";
        static final Pattern KEY = Pattern.compile("\"x\"\\s*:\\s*\"([A-Za-z0-9_-]{43})\"");

        final URI jwks;
        final HttpClient client = HttpClient.newBuilder().connectTimeout(Duration.ofSeconds(5)).build();
        List<PublicKey> keys;
        Instant fetched = Instant.EPOCH;

        Ed25519Verifier(URI jwks) {
            this.jwks = jwks;
        }

        public boolean isSigned(byte[] content, String signatures) throws Refused, GeneralSecurityException {
            // A key that is not known may be new: the destination's secret has been rotated.
            return matches(content, signatures, keys(Duration.ofMinutes(5)))
                    || matches(content, signatures, keys(Duration.ofSeconds(1)));
        }

        static boolean matches(byte[] content, String signatures, List<PublicKey> keys) throws GeneralSecurityException {
            for (byte[] bytes : signaturesOf("v1a", signatures)) {
                for (PublicKey key : keys) {
                    Signature signature = Signature.getInstance("Ed25519");
                    signature.initVerify(key);
                    signature.update(content);
                    if (bytes.length == 64 && signature.verify(bytes)) return true;
                }
            }
            return false;
        }

        /** The keys, fetched again when they are older than this; the last known ones when they cannot be fetched. */
        synchronized List<PublicKey> keys(Duration maxAge) throws Refused {
            Duration tolerated = keys == null ? Duration.ofSeconds(1) : maxAge;
            if (Duration.between(fetched, Instant.now()).compareTo(tolerated) >= 0) {
                fetched = Instant.now();
                try {
                    keys = fetch();
                } catch (IOException | InterruptedException | GeneralSecurityException e) {
                    System.err.println("The public keys cannot be fetched: " + e);
                }
            }
            if (keys == null) throw new Refused(503, "the public keys are not known");
            return keys;
        }

        /** The JDK has no JSON parser. Each of a destination's keys has an `x`, and nothing else in the document has. */
        List<PublicKey> fetch() throws IOException, InterruptedException, GeneralSecurityException {
            HttpRequest request = HttpRequest.newBuilder(jwks).timeout(Duration.ofSeconds(5)).build();
            HttpResponse<String> response = client.send(request, HttpResponse.BodyHandlers.ofString());
            if (response.statusCode() != 200) throw new IOException("answered " + response.statusCode());
            List<PublicKey> found = new ArrayList<>();
            for (var match : KEY.matcher(response.body()).results().toList()) {
                String hex = DER_START + HexFormat.of().formatHex(Base64.getUrlDecoder().decode(match.group(1)));
                X509EncodedKeySpec spec = new X509EncodedKeySpec(HexFormat.of().parseHex(hex));
                found.add(KeyFactory.getInstance("Ed25519").generatePublic(spec));
            }
            return found;
        }
    }

    /**
     * The ids that have been handled. In production this is a table with a unique column: insert the id in the
     * transaction that stores the effect, so that both or neither survive a crash.
     */
    static final ConcurrentHashMap<String, Instant> handled = new ConcurrentHashMap<>();

    /** Whether this is the first request with the id. */
    static boolean claim(String id) {
        Instant oldest = Instant.now().minus(REMEMBERED);
        handled.values().removeIf(at -> at.isBefore(oldest));
        return handled.putIfAbsent(id, Instant.now()) == null;
    }

    /** The application's handling of an event; it parses the body with the JSON library that it has. */
    static void handle(String id, byte[] body) {
        System.out.println("handled " + id + " of " + body.length + " bytes");
    }

    static void receive(HttpExchange exchange, Verifier verifier) throws Refused, IOException, GeneralSecurityException {
        if (!exchange.getRequestMethod().equals("POST")) throw new Refused(405, "only POST is accepted");
        byte[] body = exchange.getRequestBody().readNBytes(MAX_BODY_BYTES + 1);
        if (body.length > MAX_BODY_BYTES) throw new Refused(413, "the body is too large");
        verify(exchange.getRequestHeaders(), body, verifier);
        String id = exchange.getRequestHeaders().getFirst("webhook-id");
        if (!claim(id)) {
            System.out.println("duplicate " + id);
            return;
        }
        try {
            handle(id, body);
        } catch (RuntimeException e) {
            handled.remove(id);
            throw e;
        }
    }

    static void answer(HttpExchange exchange, int status, String text) throws IOException {
        byte[] body = text.getBytes(StandardCharsets.UTF_8);
        if (status == 503) exchange.getResponseHeaders().set("retry-after", "30");
        exchange.sendResponseHeaders(status, body.length == 0 ? -1 : body.length);
        exchange.getResponseBody().write(body);
        exchange.close();
    }

    static void serve(HttpExchange exchange, Verifier verifier) throws IOException {
        try {
            receive(exchange, verifier);
            answer(exchange, 204, "");
        } catch (Refused e) {
            answer(exchange, e.status, e.getMessage());
        } catch (GeneralSecurityException | RuntimeException e) {
            System.err.println("The event cannot be handled: " + e);
            answer(exchange, 500, "");
        }
    }

    static Verifier verifierFrom(String secret, String jwks) {
        if ((secret == null) == (jwks == null))
            throw new IllegalArgumentException("Set either WEBHOOK_SECRET or WEBHOOK_JWKS");
        if (jwks != null) return new Ed25519Verifier(URI.create(jwks));
        if (!secret.startsWith("whsec_")) throw new IllegalArgumentException("WEBHOOK_SECRET begins with whsec_");
        return new HmacVerifier(Base64.getDecoder().decode(secret.substring("whsec_".length())));
    }

    public static void main(String[] arguments) throws IOException {
        Verifier verifier = verifierFrom(System.getenv("WEBHOOK_SECRET"), System.getenv("WEBHOOK_JWKS"));
        String port = System.getenv().getOrDefault("PORT", "8788");
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(port)), 0);
        server.createContext("/", exchange -> serve(exchange, verifier));
        server.setExecutor(Executors.newFixedThreadPool(8));
        server.start();
        System.out.println("listening on " + server.getAddress().getPort());
    }
}
