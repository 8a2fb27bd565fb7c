import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.curator.x.discovery.ServiceCache;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.curator.x.discovery.ServiceInstanceBuilder;
import org.apache.curator.x.discovery.ServiceProvider;
import org.apache.curator.x.discovery.ServiceType;
import org.apache.curator.x.discovery.UriSpec;
import org.apache.curator.x.discovery.details.JsonInstanceSerializer;

/**
 * Runs Curator's x-discovery by commands on standard input. The protocol is in protocol.go. A path
 * is that of a service; a claim is an instance, and holds at once. The kinds are instance, and new,
 * which writes what older versions do not read. The port follows the kind, as in instance=80.
 */
public class CuratorDiscovery {
    static final Map<String, ServiceInstance<Object>> instances = new HashMap<>();
    static final Map<String, ServiceDiscovery<Object>> discoveries = new HashMap<>();
    static CuratorFramework client;

    static synchronized void say(String... words) {
        System.out.println(String.join(" ", words).replace('\n', ' '));
        System.out.flush();
    }

    static String base(String path) {
        return path.substring(0, path.lastIndexOf('/'));
    }

    static String service(String path) {
        return path.substring(path.lastIndexOf('/') + 1);
    }

    static ServiceDiscovery<Object> discovery(String path, boolean compatible) throws Exception {
        String key = base(path) + compatible;
        if (!discoveries.containsKey(key)) {
            ServiceDiscovery<Object> made = ServiceDiscoveryBuilder.builder(Object.class)
                    .client(client)
                    .basePath(base(path))
                    .serializer(new JsonInstanceSerializer<>(Object.class, compatible))
                    .build();
            made.start();
            discoveries.put(key, made);
        }
        return discoveries.get(key);
    }

    static Object payload(int port) {
        switch (port % 4) {
            case 0:
                return null;
            case 1:
                return "text";
            case 2:
                Map<String, Object> map = new LinkedHashMap<>();
                map.put("zone", "a");
                return map;
            default:
                return 5L;
        }
    }

    static void acquire(String id, String kinds, String path) throws Exception {
        String[] words = kinds.split("=");
        int port = Integer.parseInt(words[1]);
        ServiceInstanceBuilder<Object> builder = ServiceInstance.builder()
                .name(service(path))
                .id(id)
                .address("10.0.0.7")
                .port(port)
                .payload(payload(port))
                .serviceType(port % 5 == 0 ? ServiceType.STATIC : ServiceType.DYNAMIC)
                .uriSpec(new UriSpec("{scheme}://{address}:{port}/{[}{id}{]}"))
                .enabled(!words[0].equals("new"));
        if (port % 2 == 0) {
            builder.sslPort(port + 1);
        }
        ServiceInstance<Object> instance = builder.build();
        discovery(path, !words[0].equals("new")).registerService(instance);
        instances.put(id, instance);
        say("acquired", id, path + "/" + id);
    }

    static String show(ServiceInstance<Object> i) {
        return String.join("|", i.getId(), i.getName(), i.getAddress(), "" + i.getPort(), "" + i.getSslPort(), "" + i.getPayload(),
                i.getServiceType().name(), i.isEnabled() ? "enabled" : "disabled", i.getUriSpec() == null ? "null" : i.buildUriSpec());
    }

    /** Returns the instances, as a query, a cache and a provider see them. */
    static List<String> line(String kind, String path) throws Exception {
        ServiceDiscovery<Object> all = discovery(path, true);
        List<String> line = new ArrayList<>();
        switch (kind) {
            case "query":
                for (ServiceInstance<Object> i : all.queryForInstances(service(path))) {
                    line.add(show(i));
                }
                return line;
            case "cache":
                try (ServiceCache<Object> cache = all.serviceCacheBuilder().name(service(path)).build()) {
                    cache.start();
                    for (ServiceInstance<Object> i : cache.getInstances()) {
                        line.add(show(i));
                    }
                }
                return line;
            case "provider":
                try (ServiceProvider<Object> provider = all.serviceProviderBuilder().serviceName(service(path)).build()) {
                    provider.start();
                    for (ServiceInstance<Object> i : provider.getAllInstances()) {
                        line.add(show(i));
                    }
                }
                return line;
            default:
                throw new IllegalArgumentException("unknown kind " + kind);
        }
    }

    static void obey(String[] words) {
        String id = words[1];
        try {
            switch (words[0]) {
                case "acquire":
                    acquire(id, words[2], words[3]);
                    return;
                case "release":
                    ServiceInstance<Object> old = instances.remove(id);
                    if (old != null) {
                        for (ServiceDiscovery<Object> d : discoveries.values()) {
                            d.unregisterService(old);
                        }
                    }
                    say("released", id);
                    return;
                case "line":
                    say("answer", id, String.join(" ", line(words[2], words[3])));
                    return;
                default:
                    throw new IllegalArgumentException("unknown command " + Arrays.toString(words));
            }
        } catch (Exception e) {
            e.printStackTrace();
            say("failed", id, e.toString());
        }
    }

    /** The arguments are the servers, and the session timeout in milliseconds. */
    public static void main(String[] args) throws Exception {
        client = CuratorFrameworkFactory.newClient(args[0], Integer.parseInt(args[1]), 15000, new ExponentialBackoffRetry(100, 5));
        client.start();
        if (!client.blockUntilConnected(30, TimeUnit.SECONDS)) {
            throw new IllegalStateException("not connected");
        }
        Properties properties = new Properties();
        try (InputStream in = ServiceDiscovery.class.getResourceAsStream("/META-INF/maven/org.apache.curator/curator-x-discovery/pom.properties")) {
            properties.load(in);
        }
        say("ready", properties.getProperty("version"));
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            obey(line.split(" "));
        }
        for (ServiceDiscovery<Object> d : discoveries.values()) {
            d.close();
        }
        client.close();
        Runtime.getRuntime().halt(0);
    }
}
