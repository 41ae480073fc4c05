// A client of ShedLock's JdbcTemplate provider or of its Redis provider.
import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.Map;
import java.util.function.UnaryOperator;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.provider.jdbctemplate.JdbcTemplateLockProvider;
import net.javacrumbs.shedlock.provider.redis.spring.RedisLockProvider;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;

class Client extends Driver {
    /** A lock, and the record that the store had of its name at that time. */
    private record Held(SimpleLock lock, String record) {}

    private LockProvider provider;
    /** Reads the store's record of a name. */
    private UnaryOperator<String> record;
    private final Map<String, Held> held = new HashMap<>();

    /** ShedLock does not wait, so this tries again and again. */
    private String acquire(String name, String millis, Duration atLeast) throws Exception {
        while (true) {
            Duration atMost = Duration.ofMillis(Long.parseLong(millis));
            var lock = provider.lock(new LockConfiguration(Instant.now(), name, atMost, atLeast));
            if (lock.isPresent()) {
                held.put(name, new Held(lock.get(), record.apply(name)));
                return "got";
            }
            Thread.sleep(20);
        }
    }

    @Override
    String acquire(String name, String millis) throws Exception {
        return acquire(name, millis, Duration.ZERO);
    }

    /** `unlock` does not report whether the lock was still held, so this compares the records. */
    @Override
    String release(String name) {
        Held mine = held.remove(name);
        boolean there = mine.record().equals(record.apply(name));
        mine.lock().unlock();
        return there ? "released" : "lost";
    }

    /** `least NAME MS MS`: the last number is lockAtLeastFor. */
    @Override
    String other(String[] words) throws Exception {
        return acquire(words[1], words[2], Duration.ofMillis(Long.parseLong(words[3])));
    }

    private void inRedis(String host, int port) {
        var connections = new LettuceConnectionFactory(host, port);
        connections.afterPropertiesSet();
        connections.start();
        var template = new StringRedisTemplate(connections);
        record = name -> template.opsForValue().get("job-lock:default:" + name);
        provider = new RedisLockProvider.Builder(connections).safeUpdate(true).build();
    }

    private void inDatabase(String url) {
        var template = new JdbcTemplate(new SingleConnectionDataSource(url, true));
        String row = "SELECT concat(locked_by, ' ', lock_until) FROM shedlock WHERE name = ?";
        record = name -> template.queryForObject(row, String.class, name);
        provider = new JdbcTemplateLockProvider(JdbcTemplateLockProvider.Configuration.builder()
            .withJdbcTemplate(template)
            .usingDbTime()
            .build());
    }

    public static void main(String[] args) throws Exception {
        Client client = new Client();
        switch (args[0]) {
            case "redis" -> client.inRedis(args[1], Integer.parseInt(args[2]));
            case "mysql" -> client.inDatabase("jdbc:mariadb://" + args[1] + ":" + args[2] + "/test?user=root");
            default -> client.inDatabase("jdbc:postgresql://" + args[1] + ":" + args[2] + "/postgres?user=postgres");
        }
        client.run();
    }
}
