<?php
// A complete receiver for Breakwater's webhooks. PHP 8.1 or later with its extension sodium, which is part of PHP.
//
//   WEBHOOK_SECRET=whsec_… php -S 127.0.0.1:8788 receiver.php
//   WEBHOOK_JWKS=https://breakwater.example.com/v1/destinations/dst_…/jwks.json php -S 127.0.0.1:8788 receiver.php
//
// The first verifies HMAC-SHA256 with the destination's secret, the second ed25519 with its public keys. PHP keeps no state
// between requests, so ids and keys are files in the directory WEBHOOK_STATE.

declare(strict_types=1);

const TOLERANCE_S = 300;
const MAX_BODY_BYTES = 1024 * 1024;

/** The answer to a refused request. */
final class Refused extends RuntimeException
{
}

/** Throws unless the request was signed less than five minutes ago. The body is its raw bytes. */
function verify(array $headers, string $body): void
{
    [$id, $timestamp, $signatures] = $headers;
    if ($id === '' || $timestamp === '' || $signatures === '') {
        throw new Refused('a webhook header is missing', 401);
    }
    if (!preg_match('/\A[0-9]{1,12}\z/', $timestamp) || abs(time() - (int) $timestamp) > TOLERANCE_S) {
        throw new Refused('the timestamp is too old or too new', 401);
    }
    $content = "$id.$timestamp.$body";
    $secret = (string) getenv('WEBHOOK_SECRET');
    $jwks = (string) getenv('WEBHOOK_JWKS');
    if (($secret === '') === ($jwks === '')) {
        throw new RuntimeException('Set either WEBHOOK_SECRET or WEBHOOK_JWKS');
    }
    $isValid = $secret !== ''
        ? isSignedByHmac($content, $signatures, $secret)
        : isSignedByKey($content, $signatures, $jwks);
    if (!$isValid) {
        throw new Refused('no signature matches', 401);
    }
}

/** There is one signature for each secret that is in force. hash_equals takes constant time. */
function isSignedByHmac(string $content, string $signatures, string $secret): bool
{
    $key = str_starts_with($secret, 'whsec_') ? base64_decode(substr($secret, 6), true) : false;
    if ($key === false) {
        throw new RuntimeException('WEBHOOK_SECRET is whsec_ and base64');
    }
    $expected = hash_hmac('sha256', $content, $key, true);
    foreach (signaturesOf('v1', $signatures) as $bytes) {
        if (hash_equals($expected, $bytes)) {
            return true;
        }
    }
    return false;
}

function isSignedByKey(string $content, string $signatures, string $jwks): bool
{
    // A key that is not known may be new: the destination's secret has been rotated.
    foreach ([300, 1] as $maxAgeSeconds) {
        foreach (publicKeys($jwks, $maxAgeSeconds) as $key) {
            foreach (signaturesOf('v1a', $signatures) as $bytes) {
                if (strlen($bytes) === 64 && sodium_crypto_sign_verify_detached($bytes, $content, $key)) {
                    return true;
                }
            }
        }
    }
    return false;
}

/** The decoded signatures of a version. */
function signaturesOf(string $version, string $signatures): array
{
    $decoded = [];
    foreach (explode(' ', $signatures) as $one) {
        [$given, $text] = explode(',', $one, 2) + [1 => ''];
        $bytes = base64_decode($text, true);
        if ($given === $version && $bytes !== false) {
            $decoded[] = $bytes;
        }
    }
    return $decoded;
}

/** The keys, fetched again when they are older than this; the last known ones when they cannot be fetched. */
function publicKeys(string $jwks, int $maxAgeSeconds): array
{
    $file = stateDirectory() . '/jwks-' . hash('sha256', $jwks) . '.json';
    $cached = @file_get_contents($file);
    $maxAgeSeconds = $cached === false ? 1 : $maxAgeSeconds;
    clearstatcache();
    if (time() - (int) @filemtime("$file.tried") >= $maxAgeSeconds) {
        touch("$file.tried");
        $context = stream_context_create(['http' => ['timeout' => 5, 'follow_location' => 0]]);
        $fetched = @file_get_contents($jwks, false, $context);
        if ($fetched !== false && is_array(json_decode($fetched, true)['keys'] ?? null)) {
            $cached = $fetched;
            // Renamed into place, so that no other request reads half of it.
            $temporary = tempnam(stateDirectory(), 'jwks');
            file_put_contents($temporary, $fetched);
            rename($temporary, $file);
        } else {
            error_log('The public keys cannot be fetched');
        }
    }
    if ($cached === false) {
        throw new Refused('the public keys are not known', 503);
    }
    $usable = array_filter(
        json_decode($cached, true)['keys'],
        fn (array $key) => $key['kty'] === 'OKP' && $key['crv'] === 'Ed25519',
    );
    return array_map(
        fn (array $key) => sodium_base642bin($key['x'], SODIUM_BASE64_VARIANT_URLSAFE_NO_PADDING),
        $usable,
    );
}

/**
 * Whether this is the first request with the id: creating a file succeeds once. In production this is a table with a unique
 * column: insert the id in the transaction that stores the effect, so that both or neither survive a crash. Remove what is
 * older than a week from a cron job.
 */
function claim(string $id): bool
{
    $file = @fopen(claimFile($id), 'x');
    return $file !== false && fclose($file);
}

function claimFile(string $id): string
{
    return stateDirectory() . '/received-' . hash('sha256', $id);
}

function stateDirectory(): string
{
    $directory = getenv('WEBHOOK_STATE') ?: sys_get_temp_dir() . '/webhook-receiver';
    if (!is_dir($directory) && !@mkdir($directory, 0700, true) && !is_dir($directory)) {
        throw new RuntimeException("The directory $directory cannot be made");
    }
    return $directory;
}

/** The application's handling of an event. */
function handle(string $id, array $event): void
{
    file_put_contents('php://stdout', "handled $id {$event['type']}\n");
}

function receive(): void
{
    if ($_SERVER['REQUEST_METHOD'] !== 'POST') {
        throw new Refused('only POST is accepted', 405);
    }
    $body = (string) file_get_contents('php://input', false, null, 0, MAX_BODY_BYTES + 1);
    if (strlen($body) > MAX_BODY_BYTES) {
        throw new Refused('the body is too large', 413);
    }
    $id = $_SERVER['HTTP_WEBHOOK_ID'] ?? '';
    verify([$id, $_SERVER['HTTP_WEBHOOK_TIMESTAMP'] ?? '', $_SERVER['HTTP_WEBHOOK_SIGNATURE'] ?? ''], $body);
    if (!claim($id)) {
        file_put_contents('php://stdout', "duplicate $id\n");
        return;
    }
    try {
        handle($id, json_decode($body, true, 512, JSON_THROW_ON_ERROR));
    } catch (Throwable $error) {
        unlink(claimFile($id));
        throw $error;
    }
}

try {
    receive();
    http_response_code(204);
} catch (Refused $refused) {
    http_response_code($refused->getCode());
    if ($refused->getCode() === 503) {
        header('retry-after: 30');
    }
    echo $refused->getMessage();
} catch (Throwable $error) {
    error_log("The event cannot be handled: {$error->getMessage()}");
    http_response_code(500);
}
